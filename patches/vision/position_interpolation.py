"""Positions that are resized to an image by a factor, instead of to a size, are wrong in a graph.

Symptom: a file that stops in ONNX Runtime at other sizes than the traced one, and wrong numbers at the size that the
positions were learnt for. ViT, BLIP, BLIP-2 and InstructBLIP with `interpolate_pos_encoding`, 4.44.
Cause: `interpolate` by `(rows + 0.1) / side`, whose result has a length that the traced factor says; and at the size of
the learnt positions Python returns them as they are.
What is done: while it is traced, the same cubic weights are computed from the rows and columns of the image in the
graph, with a factor of 1 where upstream returns the positions as they are.
Can go: with transformers 4.44; 4.45 resizes to a size.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_SLOPE = -0.75
"""The parameter of the cubic function that torch has."""


def at_any_size(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method that resizes positions, `(1, 1 + rows * columns, channels)`, made fit for a graph."""
    from exportcompat.patches.toolkit.tracing import is_traced

    def interpolate_pos_encoding(self: Any, embeddings: Any, height: Any, width: Any) -> Any:
        if not is_traced(embeddings):
            return original(self, embeddings, height, width)
        learnt = self.position_embeddings if hasattr(self, "position_embeddings") else self.position_embedding
        return _resized(learnt, height, width, self.config.patch_size)

    return interpolate_pos_encoding


def _resized(learnt: Any, height: Any, width: Any, patch: int) -> Any:
    """Return positions of an image of any size, given those of a square one; the first one is of the whole image."""
    import torch

    side = round((learnt.shape[1] - 1) ** 0.5)
    sizes = torch.stack([torch.full((), size, dtype=torch.int64) for size in (height, width)]).to(learnt.device)
    patches = sizes // patch
    # `(learnt.shape[1] - 1)` need not be a square for upstream, so its root is not the number of rows.
    factors = (patches + 0.1) / (learnt.shape[1] - 1) ** 0.5
    is_same = (patches.prod() == learnt.shape[1] - 1) & (sizes[0] == sizes[1])
    factors = torch.where(is_same, torch.ones_like(factors), factors)
    rows, columns = (_weights(size // patch, factors[axis], side) for axis, size in enumerate((height, width)))
    grid = torch.einsum("ri,cj,ijd->rcd", rows, columns, learnt[0, 1:].unflatten(0, (side, side)))
    return torch.cat([learnt[:, :1], grid.flatten(0, 1)[None]], dim=1)


def _weights(count: Any, factor: Any, side: int) -> Any:
    """Return what each of `count` places takes of `side` learnt ones, `(count, side)`."""
    import torch

    source = (torch.arange(count, device=factor.device) + 0.5) / factor - 0.5
    first = source.floor()
    taps = torch.arange(-1, 3, device=factor.device)
    share = _cubic((source - first)[:, None] - taps)
    places = (first[:, None].long() + taps).clamp(0, side - 1)
    is_taken = places[..., None] == torch.arange(side, device=factor.device)
    return (is_taken * share[..., None]).sum(1)


def _cubic(distance: Any) -> Any:
    """Return the cubic function of torch, for distances of any shape below 2."""
    import torch

    size = distance.abs()
    near = ((_SLOPE + 2) * size - (_SLOPE + 3)) * size * size + 1
    far = ((_SLOPE * size - 5 * _SLOPE) * size + 8 * _SLOPE) * size - 4 * _SLOPE
    return torch.where(size <= 1, near, far)


_OWNERS = (
    "vit.modeling_vit:ViTEmbeddings",
    "blip.modeling_blip:BlipVisionEmbeddings",
    "blip_2.modeling_blip_2:Blip2VisionEmbeddings",
    "instructblip.modeling_instructblip:InstructBlipVisionEmbeddings",
    "instructblipvideo.modeling_instructblipvideo:InstructBlipVideoVisionEmbeddings",
)

SPECS = (
    PatchingSpec(
        id="position-interpolation",
        targets=tuple(f"transformers.models.{owner}.interpolate_pos_encoding" for owner in _OWNERS),
        replacement=f"{__name__}:at_any_size",
        requires=("transformers>=4.44,<4.45", "torch>=2.6"),
        reason="Positions are resized by the factor of the traced image: another size stops, and one is wrong.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.44.2/src/transformers/models/vit/modeling_vit.py",
        ),
        proofs=("vit",),
        kind="wrap",
    ),
)
