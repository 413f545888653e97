"""PaddleOCR-VL merges the patches of each image alone, by sizes that are data.

Symptom: `split_with_sizes expects split_sizes have only non-negative entries`, in `PaddleOCRProjector.forward`.
Cause: a loop over images cuts the patches of each, gives them rows and columns, and projects them alone.
What is done: while it is traced, the squares of all images are picked and projected at once.
Can go: when upstream computes the squares from the tensor of sizes.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_projector_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` project the merged patches of all images at once while it is traced."""
    import torch

    from exportcompat.patches.toolkit.patch_merging import merged_patches
    from exportcompat.patches.toolkit.tracing import is_traced

    def forward(self: Any, image_features: Any, image_grid_thw: Any) -> Any:
        if not is_traced(image_features):
            return original(self, image_features, image_grid_thw)
        frames, rows, columns = image_grid_thw.unbind(1)
        # The frames of a video stand below each other, and no square is in two of them.
        sizes, side = torch.stack([frames * rows, columns], 1), self.merge_kernel_size[0]
        squares = self.pre_norm(image_features)[merged_patches(sizes, side, image_features.shape[0])]
        return self.linear_2(self.act(self.linear_1(squares.flatten(1))))

    return forward


SPECS = (
    PatchingSpec(
        id="paddleocr-projector",
        targets=("transformers.models.paddleocr_vl.modeling_paddleocr_vl:PaddleOCRProjector.forward",),
        replacement=f"{__name__}:patch_projector_forward",
        requires=("transformers>=5.15", "torch>=2.6"),
        reason="The patches of each image are merged by sizes that are data: no graph.",
        upstream=(source("models/paddleocr_vl/modeling_paddleocr_vl.py", "v5.24.0"),),
        proofs=("paddleocr_vl",),
        kind="wrap",
    ),
)
