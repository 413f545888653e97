"""Pooling into a number of windows, of any size of the input, and with a divisor of its own."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator."""
    aten = torch.ops.aten
    return {
        aten._adaptive_avg_pool2d.default: _average,
        aten._adaptive_avg_pool3d.default: _average,
        aten.adaptive_avg_pool1d.default: _average,
        aten.adaptive_avg_pool2d.default: _average,
        aten.adaptive_avg_pool3d.default: _average,
        aten.adaptive_max_pool1d.default: _largest,
        aten.adaptive_max_pool2d.default: _largest,
        aten.adaptive_max_pool3d.default: _largest,
        aten.avg_pool2d.default: partial(_average_by, 2),
        aten.avg_pool3d.default: partial(_average_by, 3),
    }


def _average(x: Any, sizes: Sequence[Any]) -> Any:
    """Return the means of as many windows as there shall be along the last axes.

    Where a size of the input is not known, torch counts the elements of a window in the sample.
    """
    first = x.dim() - len(sizes)
    known = all(isinstance(size, int) for size in (*x.shape[first:], *sizes))
    if known or all(isinstance(size, int) and size == 1 for size in sizes):
        return NotImplemented
    for axis, count in enumerate(sizes, first):
        windows = _windows(x.shape[axis], count, x.device).to(x.dtype)
        weights = windows / windows.sum(1, keepdim=True)
        x = (x.movedim(axis, -1) @ weights.transpose(0, 1)).movedim(-1, axis)
    return x


def _largest(x: Any, sizes: Sequence[Any]) -> tuple[Any, Any]:
    """Return the largest elements of as many windows along the last axes, and their places in the input."""
    first = x.dim() - len(sizes)
    lengths = x.shape[first:]
    place = torch.zeros((), dtype=torch.int64, device=x.device).expand(x.shape)
    # From the last axis on, so that of equal elements the first one is found.
    for axis in reversed(range(first, x.dim())):
        windows = _windows(x.shape[axis], sizes[axis - first], x.device)
        values = x.movedim(axis, -1).unsqueeze(-2).masked_fill(~windows, -math.inf)
        x, found = (item.movedim(-1, axis) for item in values.max(-1))
        place = place.gather(axis, found) + found * math.prod(lengths[axis - first + 1 :])
    return x, place


def _windows(length: Any, count: Any, device: Any) -> Any:
    """Return which elements of an axis are in which window, `(count, length)`; windows may overlap."""
    begins = torch.arange(count, device=device) * length
    first = torch.div(begins, count, rounding_mode="floor").unsqueeze(1)
    behind = torch.div(begins + length + count - 1, count, rounding_mode="floor").unsqueeze(1)
    places = torch.arange(length, device=device)
    return (places >= first) & (places < behind)


def _average_by(
    rank: int,
    x: Any,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Return sums of windows along the last `rank` axes, over a divisor, which ONNX' `AveragePool` does not take."""
    if divisor_override is None:
        return NotImplemented
    kernel, stride, padding = (_each(item, rank) for item in (kernel, stride or kernel, padding))
    pool = torch.nn.functional.avg_pool2d if rank == 2 else torch.nn.functional.avg_pool3d
    factor = math.prod(kernel) / divisor_override
    if not ceil_mode:
        return pool(x, kernel, stride, padding, False, True) * factor
    found = pool(_with_room(x, stride, padding), kernel, stride) * factor
    for axis, (pad, step, width) in enumerate(zip(padding, stride, kernel, strict=True), x.dim() - rank):
        # The last window may go beyond the end, but may not begin there.
        if width < step + 2 * pad:
            found = found.narrow(axis, 0, torch.sym_min(found.shape[axis], (x.shape[axis] + pad + step - 1) // step))
    return found


def _with_room(x: Any, stride: Sequence[int], padding: Sequence[int]) -> Any:
    """Return an input with its padding, and with zeros behind it for a last window that goes beyond the end."""
    pairs = [(pad, pad + step - 1) for pad, step in zip(padding, stride, strict=True)]
    return torch.nn.functional.pad(x, [size for pair in reversed(pairs) for size in pair])


def _each(given: int | Sequence[int], count: int) -> list[int]:
    """Return a number for each axis."""
    found = [given] if isinstance(given, int) else list(given)
    return found * count if len(found) == 1 else found
