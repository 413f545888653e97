"""Positions of patches are looked up by how many there are of each image, which the graph has once for each patch.

Symptom: GLM-4V: ONNX Runtime stops in a `GatherND`, with an index as large as there are patches.
Cause: the embeddings find the image of a patch by counting the ends of frames. `qwen-vl-grids` makes as many ends as
there are patches, so that their number is no data.
What is done: while it is traced, the number of patches of each image comes from its sizes.
Can go: with `qwen-vl-grids`, or when upstream looks sizes up by the number of the image.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec, Unchanged

_SIGNATURE = ["self", "embeddings", "lengths", "image_shapes", "h_coords", "w_coords"]


def patch_glm4v_embeddings(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Make `forward` of embeddings count the patches of each image itself while it is traced."""
    from ._tower_context import patch_count

    if list(inspect.signature(original).parameters) != _SIGNATURE:
        return Unchanged(f"it does not take {', '.join(_SIGNATURE[1:])}")

    def forward(self: Any, embeddings: Any, lengths: Any, image_shapes: Any, h_coords: Any, w_coords: Any) -> Any:
        if patch_count() is not None:
            lengths = image_shapes.prod(1)
        return original(self, embeddings, lengths, image_shapes, h_coords, w_coords)

    return forward


SPECS = (
    PatchingSpec(
        id="glm4v-image-lengths",
        targets=("methods_using(transformers:orig_size_sq)",),
        replacement=f"{__name__}:patch_glm4v_embeddings",
        requires=("transformers>=5.9", "torch>=2.6"),
        reason="Embeddings count patches by the ends of frames, which a graph has once for each patch: it stops.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/glm4v/modeling_glm4v.py",
        ),
        proofs=("glm4v_vision",),
        kind="wrap",
    ),
)
