"""SigLIP 2 resizes its positions in a loop over images.

Symptom: no graph (`Found the following conflicts between user-specified ranges and inferred ranges`), because the loop
is for as many images as were traced, each of the size that was traced.
Cause: `resize_positional_embeddings` reads each image's size from a tensor and calls `interpolate` for it.
What is done: while it is traced, each patch of each image takes the mean of the learnt positions, weighted by row and
by column with the weights of `interpolate` (bilinear, antialiased). The weights follow from the sizes, so there is one
product for all images. An image with more patches than there is room for has no position for its last patch, and the
look-up of that patch fails in ONNX Runtime, as upstream does; a height or width below 1 fails there too. For images
that are one patch wide the numbers are those of `interpolate` for one axis after the other. Eager has others there,
which no weights explain: `interpolate` of torch 2.13 and 2.15, antialiased to a width of 1, does so for most heights.
Can go: with transformers 5.23; from 5.24 on upstream resizes without a loop over images.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_resize_positional_embeddings(original: Callable[..., Any]) -> Callable[..., Any]:
    """Resize the positions of all images at once while they are traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    def resize_positional_embeddings(positional_embeddings: Any, spatial_shapes: Any, max_length: int) -> Any:
        if not is_traced(spatial_shapes):
            return original(positional_embeddings, spatial_shapes, max_length)
        return _resized(positional_embeddings, spatial_shapes, max_length)

    return resize_positional_embeddings


def _resized(learnt: Any, sizes: Any, length: Any) -> Any:
    """Return positions of patches, `(images, length, channels)`.

    Args:
        learnt: `(rows, columns, channels)`.
        sizes: height and width of each image in patches, `(images, 2)`, int64.
        length: patches that there is room for in each image.
    """
    import torch

    height, width = sizes[:, :1], sizes[:, 1:]
    patches = torch.arange(length, device=sizes.device)
    # What is behind the end of an image has the position of its first patch.
    index = torch.where(patches <= _last(patches, height, width), patches, 0)
    rows = _weights(index // width, height, learnt.shape[0])
    columns = _weights(index % width, width, learnt.shape[1])
    weights = (rows[..., :, None] * columns[..., None, :]).flatten(-2)
    return (weights @ learnt.float().flatten(0, 1)).to(learnt.dtype)


def _last(patches: Any, height: Any, width: Any) -> Any:
    """Look up the number of the last patch of each image, `(images, 1)`, where it must be found."""
    import torch

    is_empty = (height < 1) | (width < 1)
    return patches[torch.where(is_empty, patches.shape[0], height * width - 1)]


def _weights(index: Any, size: Any, count: int) -> Any:
    """Return the weights of `count` points for each new one, as `interpolate` has them, float32.

    Args:
        index: number of the new point, `(images, length)`.
        size: new points in all, `(images, 1)`.
        count: old points.
    """
    import torch

    scale = count / size.float()
    centre = (index + 0.5) * scale
    distance = torch.arange(count, device=size.device) + 0.5 - centre[..., None]
    weights = (1 - distance.abs() / scale.clamp(min=1)[..., None]).clamp(min=0)
    return weights / weights.sum(-1, keepdim=True)


SPECS = (
    PatchingSpec(
        id="siglip2-positions",
        targets=("transformers.models.siglip2.modeling_siglip2:Siglip2VisionEmbeddings.resize_positional_embeddings",),
        replacement=f"{__name__}:patch_resize_positional_embeddings",
        requires=("transformers>=4.50,<5.24", "torch>=2.6"),
        reason="The positions of SigLIP 2 are resized in a loop over images whose sizes are data: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/siglip2/modeling_siglip2.py",
        ),
        proofs=("siglip2",),
        defect=("interpolate",),
        kind="wrap",
    ),
)
