"""ERNIE 4.5 VL pairs the frames of each video in loops over sizes that are data.

Symptom: `Could not extract specialized integer from data-dependent expression`, at `range(0, temporal_size, 2)`.
Cause: `_temporal_slicing` walks over the images and the frames of each, and lists which features go together: those of
two frames, or of an image with itself.
What is done: while it is traced, the pairs are found from where each feature is, of all images and videos at once.
Can go: when upstream computes the pairs from the tensor of sizes.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_temporal_slicing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_temporal_slicing` put the features of two frames beside each other without a loop while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    def _temporal_slicing(self: Any, hidden_states: Any, grid_thw: Any) -> Any:
        import torch

        if not is_traced(hidden_states):
            return original(self, hidden_states, grid_thw)
        pairs = _pairs(grid_thw, hidden_states.shape[0], self.spatial_merge_size)
        return torch.cat([hidden_states.index_select(0, rows) for rows in pairs], -1)

    return _temporal_slicing


def _pairs(sizes: Any, count: Any, merge: int) -> tuple[Any, Any]:
    """Return which features go together, `(pairs,)` each, int64; the last one of an odd number of frames is left out.

    Args:
        sizes: frames, rows and columns of each image or video in patches, `(images, 3)`, int64; one at least.
        count: the number of features, one for each square of patches.
        merge: rows, and columns, of a square.
    """
    import torch

    from ._patch_coordinates import find_patch_coordinates

    merged = sizes // torch.tensor([1, merge, merge], device=sizes.device)
    places = find_patch_coordinates(merged, count)
    frames = merged[places.image, 0]
    is_first = (places.frame % 2 == 0) & ((places.frame + 1 < frames) | (frames == 1))
    first = is_first.nonzero().squeeze(1)
    torch._check(first.shape[0] >= 1)
    step = torch.where(frames == 1, 0, places.height * places.width)
    return first, first + step[first]


_MODULE = "transformers.models.ernie4_5_vl_moe.modeling_ernie4_5_vl_moe"

SPECS = (
    PatchingSpec(
        id="ernie-vl-frames",
        targets=(f"{_MODULE}:Ernie4_5_VLMoeVariableResolutionResamplerModel._temporal_slicing",),
        replacement=f"{__name__}:patch_temporal_slicing",
        requires=("transformers>=5.3", "torch>=2.6"),
        reason="Loops over the frames of each image, whose number is data: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/models/ernie4_5_vl_moe/modeling_ernie4_5_vl_moe.py",
        ),
        proofs=("ernie4_5_vl_moe",),
        kind="wrap",
    ),
)
