"""The tower of Pixtral and what comes behind it, computed from the sizes of all images at once while it is traced."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from exportcompat.patches.toolkit.patch_merging import merged_patches
from exportcompat.patches.toolkit.tracing import is_traced

_BLANKS = 2
"""Patches of no image behind the others: attention wants more than one, and a call without images has none.

They are picked with the others and dropped by another pick, so that a number of patches is never a sum: of a sum torch
2.8 and before cannot say that attention's last `reshape` divides it.
"""


@dataclass(frozen=True)
class _PatchCoordinates:
    """Where the patches within their images are, one image after the other; each tensor is `(patches,)`, int64.

    The blanks behind them are of image -1; `kept` has the places of all but the blanks.
    """

    image: torch.Tensor
    row: torch.Tensor
    column: torch.Tensor
    kept: torch.Tensor


_CURRENT: ContextVar[_PatchCoordinates | None] = ContextVar("places", default=None)


class _Side:
    """A side of an image in pixels, of which its number of patches is known."""

    def __init__(self, patches: Any) -> None:
        self._patches = patches

    def __floordiv__(self, _: int) -> Any:
        return self._patches


def patch_pixtral_vision(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a vision encoder's `forward`, or the function that makes its mask, from counting single images."""
    return _masking(original) if original.__name__ == "generate_block_attention_mask" else _vision_encoder(original)


def _vision_encoder(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs)
        pixels, sizes = given.arguments["pixel_values"], given.arguments.get("image_sizes")
        if not isinstance(sizes, torch.Tensor) or not is_traced(pixels):
            return original(self, *args, **kwargs)
        with _packed(self, pixels, sizes) as places:
            # One image of one row has all patches.
            given.arguments["image_sizes"] = [(_Side(1), _Side(places.image.shape[0]))]
            output = original(*given.args, **given.kwargs)
        return torch.utils._pytree.tree_map(lambda item: item[:, places.kept] if _is_states(item) else item, output)

    return forward


def _is_states(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.dim() == 3


@contextmanager
def _packed(tower: Any, pixels: Any, sizes: Any) -> Iterator[_PatchCoordinates]:
    """Give the places of the patches within their images; meanwhile the tower's parts take and return those alone."""
    grid = tower.patch_conv(pixels.to(tower.patch_conv.weight.dtype))
    patches, places = _inside(grid, sizes // tower.patch_size)
    width = tower.config.image_size // tower.config.patch_size
    hooks = [
        tower.patch_conv.register_forward_hook(_unless_elsewhere(lambda *_: patches)),
        tower.patch_positional_embedding.register_forward_pre_hook(
            _unless_elsewhere(lambda _, given: (given[0], _positions(places, given[1].dim(), width)))
        ),
    ]
    token = _CURRENT.set(places)
    try:
        yield places
    finally:
        _CURRENT.reset(token)
        for hook in hooks:
            hook.remove()


def _unless_elsewhere(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that leaves alone the calls of other threads, which have no places."""
    return lambda *args: None if _CURRENT.get() is None else hook(*args)


def _inside(grid: Any, sizes: Any) -> tuple[Any, _PatchCoordinates]:
    """Return the patches within their images, `(1, channels, 1, patches)`, blanks behind them, and their places.

    Args:
        grid: all patches, `(images, channels, rows, columns)`.
        sizes: rows and columns of each image, `(images, 2)`, int64.
    """
    axes = [torch.arange(size, device=grid.device) for size in (grid.shape[0], *grid.shape[2:])]
    image, row, column = torch.meshgrid(axes, indexing="ij")
    is_inside = (row < sizes[:, :1, None]) & (column < sizes[:, 1:, None])
    index = _padded(is_inside, True).nonzero().squeeze(1)
    # The mask of attention asks for it.
    torch._check(index.shape[0] >= _BLANKS)
    patches = torch.nn.functional.pad(grid.permute(0, 2, 3, 1).flatten(0, 2), (0, 0, 0, _BLANKS))[index]
    image, row, column = (_padded(item, value)[index] for item, value in ((image, -1), (row, 0), (column, 0)))
    kept = _padded(is_inside, False)[index].nonzero().squeeze(1)
    return patches.t()[None, :, None], _PatchCoordinates(image, row, column, kept)


def _padded(cells: Any, blank: Any) -> Any:
    return torch.nn.functional.pad(cells.flatten(), (0, _BLANKS), value=blank)


def _positions(places: _PatchCoordinates, axes: int, width: int) -> Any:
    """Return rows and columns, `(patches, 2)`, from 5.17 on; before, numbers in a square of `width` patches."""
    return torch.stack([places.row, places.column], -1) if axes == 2 else places.row * width + places.column


def _masking(original: Callable[..., Any]) -> Callable[..., Any]:
    def generate_block_attention_mask(patch_embeds_list: Any, tensor: Any) -> Any:
        places = _CURRENT.get()
        if places is None:
            return original(patch_embeds_list, tensor)
        others = places.image[:, None] != places.image
        mask = torch.zeros_like(others, dtype=tensor.dtype).masked_fill(others, torch.finfo(tensor.dtype).min)
        return mask[None, None]

    return generate_block_attention_mask


def patch_patch_merger(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make Mistral 3's merger of patches find the patches of all cells at once while it is traced."""

    def forward(self: Any, image_features: Any, image_sizes: Any) -> Any:
        if not isinstance(image_sizes, torch.Tensor) or not is_traced(image_features):
            return original(self, image_features, image_sizes)
        cells = merged_patches(image_sizes // self.patch_size, self.spatial_merge_size, image_features.shape[0])
        # The channels of a cell stand one behind the other, each with its patches.
        return self.merging_layer(image_features[cells].transpose(1, 2).flatten(1))

    return forward
