"""Features of images in tiles, as LLaVA-NeXT packs them, computed from the sizes of all images at once.

An image is resized into the best of some resolutions, and padded; its tiles and the whole image in small go through the
tower. Of the features of the tiles those of the padding are left out, and each row ends with a newline.
"""

from dataclasses import dataclass
from math import isqrt
from typing import Any

import torch


@dataclass(frozen=True)
class Layout:
    """Where the features of each image are; every attribute is an int64 tensor.

    Attributes:
        first: the number of the first tile of each image, which is the whole image in small, `(images,)`.
        columns: how many tiles stand side by side, `(images,)`.
        corner: row and column of the first feature that is not padding, `(images, 2)`.
        sizes: rows and columns of features that are packed, `(images, 2)`; 1 and 0 for an image without tiles.
        shown: rows and columns of features that are not padding, `(images, 2)`; None if these are packed as they are.
    """

    first: Any
    columns: Any
    corner: Any
    sizes: Any
    shown: Any


def resolutions(sizes: Any, options: Any) -> Any:
    """Return the resolution that shows most of each image, the smallest of those, and the first of the smallest.

    Source: `select_best_resolution` of transformers, image by image.

    Args:
        sizes: height and width of each image, `(images, 2)`, int64.
        options: heights and widths to choose from, `(options, 2)`, int64.

    Returns:
        `(images, 2)`, int64.
    """
    real = sizes[:, None].to(torch.float64)
    scale = (options.to(torch.float64) / real).amin(-1, keepdim=True)
    used = torch.minimum((real * scale).to(torch.int64).prod(-1), sizes.prod(-1)[:, None])
    area = options.prod(-1)
    # Whole numbers that are in the order of the three questions; no two are equal.
    score = (used * (area.max() + 1) - (area - used)) * options.shape[0]
    score = score - torch.arange(options.shape[0], device=sizes.device)
    is_best = score == score.amax(-1, keepdim=True)
    return (is_best[..., None] * options).sum(1)


def crop(sizes: Any, padded: Any) -> tuple[Any, Any]:
    """Return where the part that is not padding begins, and its rows and columns.

    Source: `unpad_image` of transformers, image by image.

    Args:
        sizes: height and width of each image, `(images, 2)`, int64.
        padded: rows and columns with padding, `(images, 2)`, int64.

    Returns:
        Two tensors `(images, 2)`, int64.
    """
    real, whole = sizes.to(torch.float64), padded.to(torch.float64)
    # Each side, as long as it is if the other one fills what there is; rounded as upstream rounds it.
    sides = ((real * (whole / real).flip(-1) * 1e7).round() / 1e7).to(torch.int64)
    is_wide = real[:, 1] / real[:, 0] > whole[:, 1] / whole[:, 0]
    is_cropped = torch.stack([is_wide, ~is_wide], -1)
    corner = torch.where(is_cropped, (padded - sides) // 2, 0)
    return corner, padded - 2 * corner


def shrunk(sizes: Any, side: int, most: int) -> Any:
    """Return the rows and columns of what is resized where it is more than `most` tiles, `(images, 2)`, int64."""
    area = sizes.prod(-1, keepdim=True).to(torch.float64)
    ratio = (area / (most * side**2)).sqrt()
    return torch.where(ratio > 1.1, (sizes / ratio).floor().to(torch.int64), sizes)


def pack(features: Any, newline: Any, layout: Layout, longest: int) -> tuple[Any, Any]:
    """Return the features of all images one after the other, and how many each has.

    Args:
        features: those of each tile, `(tiles, cells, channels)`; the cells are a square.
        newline: what ends a row, `(channels,)`; None for nothing.
        layout: where they are.
        longest: at least the number of features that an image can have.

    Returns:
        `(features, channels)`, and `(images,)`, int64.
    """
    cells, gap = features.shape[1], int(newline is not None)
    lengths = cells + layout.sizes[:, 0] * (layout.sizes[:, 1] + gap)
    place = torch.arange(longest, device=features.device)
    image, place = (place < lengths[:, None]).nonzero().unbind(1)
    width = layout.sizes[image, 1]
    inside, step = (place - cells).clamp(min=0), (width + gap).clamp(min=1)
    row, column = inside // step, inside % step
    table = features.flatten(0, 1)
    small = table[layout.first[image] * cells + place.clamp(max=cells - 1)]
    mixed = _mixed(table, layout, image, row, torch.minimum(column, (width - 1).clamp(min=0)), cells)
    packed = torch.where((place < cells)[:, None], small, mixed)
    if newline is not None:
        packed = torch.where(((place >= cells) & (column == width))[:, None], newline.to(packed.dtype), packed)
    return packed, lengths


def _mixed(table: Any, layout: Layout, image: Any, row: Any, column: Any, cells: int) -> Any:
    """Return the features at rows and columns of what an image shows; those between four others are mixed of them."""
    rows, columns = (_parts(layout, image, axis, index) for axis, index in enumerate((row, column)))
    total = 0
    for line, vertical in rows:
        for place, horizontal in columns:
            weight = (vertical * horizontal).to(table.dtype)[:, None]
            total = total + weight * table[_number(layout, image, line, place, cells).clamp(max=table.shape[0] - 1)]
    return total


def _number(layout: Layout, image: Any, row: Any, column: Any, cells: int) -> Any:
    """Return the numbers of the features at rows and columns of what an image shows, `(features,)`."""
    side = isqrt(cells)
    y, x = row + layout.corner[image, 0], column + layout.corner[image, 1]
    tile = layout.first[image] + 1 + y // side * layout.columns[image] + x // side
    return tile * cells + y % side * side + x % side


def _parts(layout: Layout, image: Any, axis: int, index: Any) -> list[tuple[Any, Any]]:
    """Return the places along an axis of which a place is mixed, and their weights.

    Source: `torch.nn.functional.interpolate`, mode `bilinear`, corners not aligned.
    """
    if layout.shown is None:
        return [(index, torch.ones_like(index))]
    size, resized = layout.shown[image, axis], layout.sizes[image, axis]
    scale = size.to(torch.float32) / resized.clamp(min=1).to(torch.float32)
    point = ((index.to(torch.float32) + 0.5) * scale - 0.5).clamp(min=0)
    before = point.to(torch.int64)
    weight = point - before.to(torch.float32)
    return [(before, 1 - weight), (torch.minimum(before + 1, size - 1), weight)]
