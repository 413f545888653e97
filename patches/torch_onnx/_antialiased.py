"""Maps that are resized with `antialias` and `align_corners`: ONNX' `Resize` has other places then than torch."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

_CUBIC = -0.5
"""The coefficient of torch's cubic filter with `antialias`."""


def corrections() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator; calls without `align_corners` they answer by `NotImplemented`."""
    aten = torch.ops.aten
    return {
        aten._upsample_bilinear2d_aa.default: partial(_resized, _linear, 1),
        aten._upsample_bilinear2d_aa.vec: partial(_resized_by_factors, _linear, 1),
        aten._upsample_bicubic2d_aa.default: partial(_resized, _cubic, 2),
        aten._upsample_bicubic2d_aa.vec: partial(_resized_by_factors, _cubic, 2),
    }


def _resized_by_factors(
    filtered: Callable[[Any], Any],
    radius: int,
    x: Any,
    output_size: Sequence[Any] | None,
    align_corners: bool,
    scale_factors: Sequence[float] | None,
) -> Any:
    sizes = output_size or [int(size * by) for size, by in zip(x.shape[2:], scale_factors or (), strict=True)]
    return _resized(filtered, radius, x, sizes, align_corners)


def _resized(
    filtered: Callable[[Any], Any],
    radius: int,
    x: Any,
    output_size: Sequence[Any],
    align_corners: bool,
    *_scales: float | None,
    **_named: float | None,
) -> Any:
    """Return maps `(batch, channels, height, width)` of another size.

    Args:
        filtered: the weight of an element by its distance, in steps of the smaller map.
        radius: how far the filter reaches in these steps.
        x: the maps.
        output_size: height and width.
        align_corners: whether a step is such that the corners would be kept.
    """
    if not align_corners:
        return NotImplemented
    for axis, count in enumerate(output_size, x.dim() - 2):
        weights = _weights(filtered, radius, x.shape[axis], count, x.device)
        x = (x.movedim(axis, -1) @ weights.to(x.dtype).transpose(0, 1)).movedim(-1, axis)
    return x


def _weights(filtered: Callable[[Any], Any], radius: int, length: Any, count: Any, device: Any) -> Any:
    """Return what each of `length` elements weighs for each of `count` results, `(count, length)`, float32."""
    numbers = {"dtype": torch.float32, "device": device}
    step = torch.full((), length - 1, **numbers) / torch.full((), count - 1, **numbers).clamp(min=1)
    step = step if isinstance(count, int) and count > 1 else torch.where(torch.full((), count, **numbers) > 1, step, 0)
    width = step.clamp(min=1)
    # torch puts the middle of an element half a step behind its place, with `align_corners` too.
    middles = (torch.arange(count, **numbers) + 0.5) * step
    begins = (middles - radius * width + 0.5).trunc().clamp(min=0).unsqueeze(1)
    ends = (middles + radius * width + 0.5).trunc().unsqueeze(1)
    places = torch.arange(length, **numbers)
    found = filtered((places + 0.5 - middles.unsqueeze(1)) / width)
    found = torch.where((places >= begins) & (places < ends), found, 0.0)
    return found / found.sum(1, keepdim=True)


def _linear(distance: Any) -> Any:
    return (1 - distance.abs()).clamp(min=0)


def _cubic(distance: Any) -> Any:
    far = distance.abs()
    near = ((_CUBIC + 2) * far - (_CUBIC + 3)) * far * far + 1
    beyond = (((far - 5) * far + 8) * far - 4) * _CUBIC
    return torch.where(far < 1, near, torch.where(far < 2, beyond, 0.0))
