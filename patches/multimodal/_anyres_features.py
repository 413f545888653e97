"""The features of the tiles of all images, kept in one piece while they are traced, and packed at once."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from exportcompat.patches.toolkit.function_modes import run_under
from exportcompat.patches.toolkit.tracing import is_traced

from ._anyres_layout import Layout, crop, pack, resolutions, shrunk


@dataclass(frozen=True)
class _Whole:
    """The features of all tiles, in place of those of each image.

    Attributes:
        features: `(tiles, cells, channels)`.
        sizes: height and width of each image, `(images, 2)`, int64.
        first: the number of the first tile of each image, given how many each has; both `(images,)`, int64.
        is_tiled: whether an image has tiles, `(images,)`, bool.
    """

    features: Any
    sizes: Any
    first: Callable[[Any], Any]
    is_tiled: Any


class _Unsplit(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
    """Leave in one piece what is split by no sizes at all."""

    def __init__(self, sizes: Any, first: Callable[[Any], Any], is_tiled: Any) -> None:
        super().__init__()
        self._parts = sizes, first, is_tiled

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.split, Tensor.split) and isinstance(args[1], list) and not args[1]:
            return _Whole(args[0], *self._parts)
        return func(*args, **(kwargs or {}))


def patch_get_image_features(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `get_image_features` take all tiles for those of one image while it is traced."""
    signature = inspect.signature(original)

    def get_image_features(self: Any, *args: Any, **kwargs: Any) -> Any:
        values = signature.bind(self, *args, **kwargs).arguments
        pixels, sizes = values["pixel_values"], values["image_sizes"]
        if not is_traced(pixels):
            return original(self, *args, **kwargs)
        # Upstream takes apart images that have five axes, and asks for the number of tiles of each size in the list.
        has_tiles_axis = pixels.dim() == 5
        first = _every(pixels.shape[1]) if has_tiles_axis else _after_each_other
        is_tiled = _is_tiled(sizes, values.pop("batch_num_images", None))
        values |= {"pixel_values": pixels.flatten(0, 1) if has_tiles_axis else pixels, "image_sizes": []}
        with _Unsplit(sizes, first, is_tiled):
            return original(**values.pop("kwargs", {}), **values)

    return get_image_features


class _Concatenated(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
    """Leave in one piece what is split into pieces of one size."""

    def __init__(self) -> None:
        super().__init__()
        self._pooled: Any = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.split, Tensor.split) and isinstance(args[1], (int, torch.SymInt)):
            return (args[0],)
        if func is torch.nn.functional.linear and args[0] is self._pooled:
            # ONNX Runtime makes one operator of a transposition and a product, which refuses a batch of 0.
            return func(args[0].flatten(0, 1), *args[1:]).unflatten(0, args[0].shape[:2])
        result = func(*args, **(kwargs or {}))
        if func is Tensor.contiguous:
            self._pooled = result
        return result


def patch_get_video_features(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `get_video_features` take all features for those of one video while they are traced.

    What calls it joins those of all videos; each is `(frames, tokens, channels)`.
    """
    joined = run_under(_Concatenated, original)

    def get_video_features(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = joined(self, *args, **kwargs)
        features = getattr(result, "pooler_output", None)
        # From 5.20 on the features of all videos are one tensor, which is taken apart by what calls this.
        if isinstance(features, Tensor) and is_traced(features):
            result.pooler_output = [features]
        return result

    return get_video_features


def _every(tiles: Any) -> Callable[[Any], Any]:
    """Return the numbers of first tiles where each image has as many, if with blank ones."""
    return lambda counts: torch.arange(counts.shape[0], device=counts.device) * tiles


def _after_each_other(counts: Any) -> Any:
    return counts.cumsum(0) - counts


def _is_tiled(sizes: Any, counts: Any) -> Any:
    """Say which images have tiles: those that are alone in their row, `(images,)`, bool.

    Args:
        sizes: see `_Whole`.
        counts: number of images of each row, `(rows,)`, int64; None if each image is alone.
    """
    if counts is None:
        return torch.ones_like(sizes[:, 0], dtype=torch.bool)
    image = torch.arange(sizes.shape[0], device=sizes.device)
    return counts[(image[:, None] >= counts.cumsum(0)).sum(1)] == 1


def patch_pack_image_features(original: Callable[..., Any]) -> Callable[..., Any]:
    """Pack the features of all images at once, where they are in one piece."""
    signature = inspect.signature(original)

    def pack_image_features(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        whole = given.arguments["image_features"]
        if not isinstance(whole, _Whole):
            return original(self, *args, **kwargs)
        ratio, newline = (given.arguments.get(name) for name in ("vision_aspect_ratio", "image_newline"))
        most = None if ratio is None else int(ratio.removeprefix("anyres_max_"))
        packed, lengths = pack(whole.features, newline, _layout(self.config, whole, most), _longest(self.config))
        return [packed], lengths

    return pack_image_features


def patch_pack_concatenated_features(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `pack_image_features` do the same where it also puts the features together."""
    method = patch_pack_image_features(original)

    def pack_image_features(self: Any, *args: Any, **kwargs: Any) -> Any:
        features, lengths = method(self, *args, **kwargs)
        return features[0] if isinstance(features, list) else features, lengths

    return pack_image_features


def _side(config: Any) -> int:
    """Return how many features a tile has along a side."""
    return int(config.vision_config.image_size // config.vision_config.patch_size)


def _longest(config: Any) -> int:
    """Return at least the number of features that an image can have."""
    side, pixels = _side(config), config.vision_config.image_size
    grids = [(height // pixels, width // pixels) for height, width in config.image_grid_pinpoints]
    return side**2 + int(max(rows * side * (columns * side + 1) for rows, columns in grids))


def _layout(config: Any, whole: _Whole, most: int | None) -> Layout:
    """Return where the features of each image are; those of more than `most` tiles are resized."""
    side, options = _side(config), torch.tensor(config.image_grid_pinpoints, device=whole.sizes.device)
    grid = resolutions(whole.sizes, options) // config.vision_config.image_size
    corner, shown = crop(whole.sizes, grid * side)
    sizes = shown if most is None else shrunk(shown, side, most)
    sizes = torch.where(whole.is_tiled[:, None], sizes, torch.tensor([1, 0], device=sizes.device))
    first = whole.first(torch.where(whole.is_tiled, grid.prod(-1) + 1, 1))
    return Layout(first, grid[:, 1], corner, sizes, None if most is None else shown)
