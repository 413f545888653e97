"""Features of images whose number may be any, 0 included."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_UNKNOWN = -1
"""Stands for the number of features of an image; no tensor is split by it."""


class OnePart(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
    """Split features into one part: all of them but the last, of the image that `append_padding_image` adds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.split, torch.Tensor.split) and _is_unknown(args[1]):
            return (args[0][:-1],)
        if func is torch.Tensor.prod and args[1:] == (-1,):
            # What is split by is a list of as many numbers as there are images; it is not looked at.
            return func(args[0], 0)[:1]
        if func in (torch.Tensor.tolist, torch.Tensor.item):
            return [_UNKNOWN] if func is torch.Tensor.tolist else _UNKNOWN
        return func(*args, **(kwargs or {}))


def _is_unknown(sizes: Any) -> bool:
    # What attention splits by has symbolic numbers, and to compare one would become part of the graph.
    return isinstance(sizes, list) and [size for size in sizes if type(size) is int] == [_UNKNOWN]


_MERGE = ("merge_size", "merge_kernel_size", "spatial_merge_size")
"""What vision encoders, or their configurations, call how many rows of patches are merged."""


def merged_rows(tower: Any, patches: Any) -> int:
    """Return how many rows, and columns, of patches a vision encoder merges; 1 where an item holds those of a square.

    Args:
        tower: the vision encoder.
        patches: `(patches, ...)`, or squares of pixels that are merged, `(squares, side, side, channels)`.
    """
    if patches.dim() == 4 and patches.shape[1] == patches.shape[2]:
        return 1
    found = (getattr(owner, name, None) for owner in (tower, tower.config) for name in _MERGE)
    rows = next(value for value in found if value is not None)
    return int(rows if isinstance(rows, int) else rows[0])


def append_padding_image(rows: Any, sizes: Any, merge: int) -> tuple[Any, Any]:
    """Add the smallest image that there is; without rows, the other images have the size 0.

    Args:
        rows: patches, `(patches, ...)`.
        sizes: frames, rows and columns of each image, `(images, 3)`, int64.
        merge: how many rows, and columns, are merged.
    """
    has_rows = torch.full((), rows.shape[0], dtype=sizes.dtype, device=sizes.device).clamp(max=1)
    one = torch.tensor([[1, merge, merge]], dtype=sizes.dtype, device=sizes.device)
    blank = rows.new_zeros((merge * merge, *rows.shape[1:]))
    return torch.cat([rows, blank]), torch.cat([sizes * has_rows, one])


def drop_padding_features(found: Any) -> Any:
    """Return what a method has found, without the features of the image that was added where they were not split.

    4.52 splits nothing. Qwen3-VL has a list of features of lower layers, each of all images, to 5.17.
    """
    if isinstance(found, torch.Tensor):
        return found[:-1]
    if isinstance(found, tuple):
        return tuple(_trimmed(item) for item in found)
    for name, item in found.items():
        found[name] = _trimmed(item)
    return found


def _trimmed(item: Any) -> Any:
    return [part[:-1] if isinstance(part, torch.Tensor) else part for part in item] if type(item) is list else item
