"""Granite Docling takes the features of all tiles apart by text, and each part is as long as data say.

Symptom: `Found the following conflicts between user-specified ranges and inferred ranges`: as many texts as the sample
has.
Cause: `get_image_features` splits features by the list of the numbers of tiles, for `forward` to put them together
again.
What is done: while it is traced, features stay whole, as `feature-merge` has it in other models. That one finds methods
by the names in their code, and the name here, `split_sizes`, is not among these, since a comprehension uses it too.
Can go: when torch exports lists that are as long as data say.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_get_image_features(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `get_image_features` leave the features of all tiles in one piece while it is traced."""
    from exportcompat.patches.multimodal._feature_merge import _Splitting
    from exportcompat.patches.toolkit.function_modes import run_under

    return run_under(_Splitting, original)


SPECS = (
    PatchingSpec(
        id="granite-docling-tiles",
        targets=(
            "transformers.models.granite_docling.modeling_granite_docling:GraniteDoclingModel.get_image_features",
        ),
        replacement=f"{__name__}:patch_get_image_features",
        requires=("transformers>=5.23",),
        reason="Granite Docling splits features by numbers of tiles that are data: a graph for one number of texts.",
        upstream=(source("models/granite_docling/modeling_granite_docling.py", "v5.24.0"),),
        proofs=("granite_docling_export",),
        kind="wrap",
    ),
)
