"""Where each patch is in its image, from the sizes of the images and the number of patches, without a loop."""

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class PatchCoordinates:
    """The place of each patch; every attribute is an int64 tensor `(patches,)`.

    Attributes:
        image: the number of its image or video.
        frame: the number of its frame.
        row: its row in the frame.
        column: its column.
        height: the rows that the frame has.
        width: the columns that it has.
        rank: how many patches of the frame come before it.
    """

    image: Any
    frame: Any
    row: Any
    column: Any
    height: Any
    width: Any
    rank: Any


def find_patch_coordinates(sizes: Any, count: Any, merge: Any = 1) -> PatchCoordinates:
    """Find the place of each patch; those that are merged follow each other.

    Args:
        sizes: frames, rows and columns of each image, `(images, 3)`, int64.
        count: the number of patches, which is known from the patches and so needs no data.
        merge: how many rows, and columns, are merged; one number, or one for each image.
    """
    image = _images(sizes, count)
    _, height, width = sizes[image].unbind(1)
    counts = sizes.prod(1)
    index = torch.arange(count, device=sizes.device) - (counts.cumsum(0) - counts)[image]
    rank = index % (height * width)
    merge = merge[image] if isinstance(merge, torch.Tensor) else merge
    block, inside = rank // (merge * merge), rank % (merge * merge)
    per_row = width // merge
    row = block // per_row * merge + inside // merge
    column = block % per_row * merge + inside % merge
    return PatchCoordinates(image, index // (height * width), row, column, height, width, rank)


def _images(sizes: Any, count: Any) -> Any:
    """Return the number of the image of each patch, `(patches,)`; one that does not exist if the sizes do not fit."""
    ends = sizes.prod(1).cumsum(0)
    image = (torch.arange(count, device=sizes.device)[:, None] >= ends).sum(1)
    # Looking up an image that is not there is an error of ONNX Runtime too.
    return torch.where(sizes.prod(1).sum() == count, image, sizes.shape[0])


def frame_lengths(sizes: Any, count: Any, is_clip: bool = False) -> Any:
    """Return the size of each frame at its first patch, and 0 at the others, `(patches,)`.

    The sums are the ends of the frames, each of them as often as it has patches, so that their number needs no data.

    Args:
        sizes: see `find_patch_coordinates`.
        count: the number of patches.
        is_clip: a video counts as one frame.
    """
    sizes = torch.stack([torch.ones_like(sizes[:, 0]), sizes[:, 0] * sizes[:, 1], sizes[:, 2]], 1) if is_clip else sizes
    places = find_patch_coordinates(sizes, count)
    return torch.where(places.rank == 0, places.height * places.width, 0)


def frame_ends(sizes: Any, count: Any, is_clip: bool = False) -> Any:
    """Return 0 and the end of the frame of each patch, `(patches + 1,)`; see `frame_lengths`."""
    return torch.nn.functional.pad(frame_lengths(sizes, count, is_clip).cumsum(0), (1, 0))


def window_order(sizes: Any, count: Any, merge: int, side: int) -> tuple[Any, Any]:
    """Return the order of merged patches in which those of a window follow each other.

    Args:
        sizes: see `find_patch_coordinates`.
        count: the number of patches.
        merge: how many rows, and columns, are merged.
        side: how many merged patches a window has along each side; it has less at the edges of an image.

    Returns:
        The merged patches in their new order, `(patches / merge**2,)`, and 0 and the end of the window of each of
        them, counted in patches, `(patches / merge**2 + 1,)`; int64.
    """
    places = find_patch_coordinates(
        sizes // torch.tensor([1, merge, merge], device=sizes.device), count // (merge * merge)
    )
    unit = torch.arange(count // (merge * merge), device=sizes.device)
    top, left = places.row // side * side, places.column // side * side
    rows = (places.height - top).clamp(max=side)
    columns = (places.width - left).clamp(max=side)
    # Before a window are the frames before, the rows of windows above, and the windows to its left.
    first = unit - places.rank + top * places.width + rows * left
    place = first + (places.row - top) * columns + places.column - left
    order = torch.zeros_like(unit).scatter(0, place, unit)
    ends = (first + rows * columns)[order] * (merge * merge)
    return order, torch.nn.functional.pad(ends, (1, 0))


def corners(sizes: Any, count: Any, merge: int, side: int) -> tuple[Any, Any]:
    """Return from which places of a square table the embedding of each patch is mixed, and in which parts.

    Args:
        sizes: see `find_patch_coordinates`.
        count: the number of patches.
        merge: how many rows, and columns, are merged.
        side: rows, and columns, of the table.

    Returns:
        Places in the table, row by row, `(4, patches)`, int64, and weights, `(4, patches)`, float32.
    """
    places = find_patch_coordinates(sizes, count, merge)
    (top, bottom, down) = _neighbours(places.row, places.height, side)
    (left, right, along) = _neighbours(places.column, places.width, side)
    rows, columns = torch.stack([top, top, bottom, bottom]), torch.stack([left, right, left, right])
    vertical = torch.stack([1 - down, 1 - down, down, down])
    return rows * side + columns, vertical * torch.stack([1 - along, along, 1 - along, along])


def _neighbours(index: Any, size: Any, side: int) -> tuple[Any, Any, Any]:
    """Return the places below and above that of `index`, if `size` places are spread from 0 to `side - 1`."""
    point = index.to(torch.float32) * (side - 1) / (size - 1).clamp(min=1)
    floor = point.floor()
    below = floor.to(torch.int64)
    return below, (below + 1).clamp(max=side - 1), point - floor


def marks(ends: Any, count: Any) -> Any:
    """Return 1 for the first patch of each segment and 0 for others, `(count,)`, int64; ends may repeat."""
    found = torch.zeros(count + 1, dtype=torch.int64, device=ends.device)
    return found.scatter(0, ends.to(torch.int64), 1)[:count]


def segments(ends: Any, count: Any) -> Any:
    """Return the number of the segment of each of `count` rows, `(count,)`, from 0 and the ends; ends may repeat."""
    return marks(ends, count).cumsum(0)


@dataclass(frozen=True)
class Segments:
    """Which patches attend to each other; every attribute is int64.

    Attributes:
        first: the first patch of each segment, `(segments,)`.
        length: how many patches it has, `(segments,)`.
        own: the number of the segment of each patch, `(patches,)`.
    """

    first: Any
    length: Any
    own: Any


def find_segments(ends: Any, count: Any) -> Segments:
    """Find the segments of `count` patches, at least 1, from 0 and the ends; their number is data.

    Args:
        ends: `(segments + 1,)`, integers; they may repeat.
        count: the number of patches.
    """
    is_first = marks(ends, count)
    first = is_first.nonzero()[:, 0]
    torch._check(first.shape[0] >= 1)
    own = is_first.cumsum(0) - 1
    return Segments(first, torch.zeros_like(first).scatter_add(0, own, torch.ones_like(own)), own)
