"""The positions of the patches of an image are written where a mask is, as many of them as data says.

Symptom: `OverflowError: Python int too large to convert to C long` when the graph is made, of a check that a number of
patches is small enough. Idefics2, Idefics3, SmolVLM and Phi-4-multimodal, 5.0 to 5.22.
Cause: `position_ids[mask] = pos_ids[mask]` picks rows by a mask, whose number is data, to put them where they were.
What is done: while it is traced, such a copy takes each element from one tensor or from the other (`torch.where`).
Can go: with transformers 5.22; 5.23 has `torch.where` itself.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def chosen(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the `forward` of the embeddings of patches that copies by a mask element by element."""
    from ._masked_copy import MaskedCopy
    from ._modes import under

    return under(MaskedCopy, original)


SPECS = (
    PatchingSpec(
        id="patch-positions-masked",
        targets=("mentioning(transformers:fractional_coords_h)",),
        replacement=f"{__name__}:chosen",
        requires=("transformers>=5.0,<5.23", "torch>=2.6"),
        reason="The positions of patches are copied by a mask, as many as data says: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.22.2/src/transformers/models/idefics3/modeling_idefics3.py",
        ),
        proofs=("idefics3",),
        defect=(r"\w+\[\w*mask\b.*\] = \w+\[\w*mask\b",),
        kind="wrap",
    ),
)
