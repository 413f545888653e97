"""Maps that are resized by a factor that is made of dynamic sizes."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

_SHARPNESS = -0.75
"""What torch has for the cubic kernel."""

_RANK_OF_MAPS = 4
"""Of `(batch, channels, height, width)`."""

_NEAREST = {"nearest": 0.0, "nearest-exact": 0.5}
"""Which part of an element is looked up."""


def resized(
    input: Any,  # noqa: A002 (as torch names it)
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Return what `torch.nn.functional.interpolate` makes of a tensor, `(batch, channels, ...)`."""
    factors = _factors(scale_factor, input.dim() - 2)
    if not any(isinstance(factor, torch.SymInt | torch.SymFloat) for factor in factors):
        return functional.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    sizes = [torch.sym_int(length * factor) for length, factor in zip(input.shape[2:], factors, strict=True)]
    # A factor says the size alone then; that of a window that is smoothed differs by less than a step of it.
    if recompute_scale_factor or align_corners or antialias or mode == "area":
        return functional.interpolate(input, sizes, None, mode, align_corners, None, antialias)
    # An axis that keeps its size is left as it is, whatever the factor is.
    # The cubic kernel of torch alone, and nearest elements of other tensors than maps, go by the factor then.
    keeps = mode != "bicubic" and (mode not in _NEAREST or input.dim() == _RANK_OF_MAPS)
    for axis, (length, factor) in enumerate(zip(sizes, factors, strict=True), 2):
        step = 1 / factor
        if keeps:
            difference = torch.sym_max(length - input.shape[axis], input.shape[axis] - length)
            step = 1 + (step - 1) * torch.sym_min(difference, 1)
        input = _along(input, axis, length, step, mode)  # noqa: A001
    return input


def _factors(scale_factor: Any, count: int) -> list[Any]:
    """Return the factor of each axis; none if there is a size in its place."""
    if scale_factor is None:
        return []
    return list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * count


def _along(x: Any, axis: int, length: Any, step: Any, mode: str) -> Any:
    """Return a tensor with an axis of the given length, whose elements are so many steps of the old one apart."""
    place, most = torch.arange(length, device=x.device), x.shape[axis] - 1
    if mode in _NEAREST:
        index = ((place + _NEAREST[mode]) * step).floor().to(torch.int64)
        return x.index_select(axis, index.clamp(min=0).clamp(max=most))
    source = (place + 0.5) * step - 0.5
    source = source if mode == "bicubic" else source.clamp(min=0)
    first = source.floor()
    weights = _cubic(source - first) if mode == "bicubic" else _linear(source - first)
    begin = first.to(torch.int64) - (len(weights) // 2 - 1)
    shape = [-1 if item == axis else 1 for item in range(x.dim())]
    parts = [
        x.index_select(axis, (begin + tap).clamp(min=0).clamp(max=most)) * weight.to(x.dtype).reshape(shape)
        for tap, weight in enumerate(weights)
    ]
    return sum(parts[1:], parts[0])


def _linear(share: Any) -> Sequence[Any]:
    return 1 - share, share


def _cubic(share: Any) -> Sequence[Any]:
    """Return the weights of the four elements around a place, which is a share of a step behind the second."""
    rest = 1 - share
    return _far(share + 1), _near(share), _near(rest), _far(rest + 1)


def _near(distance: Any) -> Any:
    return ((_SHARPNESS + 2) * distance - (_SHARPNESS + 3)) * distance * distance + 1


def _far(distance: Any) -> Any:
    return ((_SHARPNESS * distance - 5 * _SHARPNESS) * distance + 8 * _SHARPNESS) * distance - 4 * _SHARPNESS
