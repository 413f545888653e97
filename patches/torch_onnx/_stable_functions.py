"""Functions of which ONNX has the parts alone, put together so that no number overflows or changes its side."""

import math
from collections.abc import Callable
from typing import Any

import torch

from ._signs import signbit

_FEW_ROWS = 25
"""Rows up to which torch takes the differences themselves; of more it takes products, and so does this."""

_SMALL = 0.5
"""Size up to which `exp(x) - 1` would lose digits."""

_NEVER_PRODUCTS = 2
"""`compute_mode` of `cdist` for differences at any number of rows."""


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator that onnxscript translates, but not for every number."""
    aten = torch.ops.aten
    return {
        aten.atan2.default: _atan2,
        aten.expm1.default: _expm1,
        aten.hypot.default: _hypot,
        aten.log1p.default: _log1p,
        aten.log_sigmoid.default: _log_sigmoid,
        aten.logaddexp.default: _logaddexp,
        aten.logaddexp2.default: _logaddexp2,
        aten.xlogy.Tensor: _xlogy,
        aten.xlogy.Scalar_Self: _xlogy,
        aten.xlogy.Scalar_Other: _xlogy,
    }


def _in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors that computes in half precision as torch does, in float32, and rounds once."""

    def compute(*parts: Any) -> Any:
        kind = torch.result_type(*parts) if len(parts) > 1 else parts[0].dtype
        kind = kind if kind.is_floating_point else torch.get_default_dtype()
        wide = torch.promote_types(kind, torch.float32)
        return function(*(part.to(wide) for part in parts)).to(kind)

    return compute


@_in_float32
def _log1p(x: Any) -> Any:
    """Return the logarithm of `1 + x`, with all digits of a small `x`: what the sum lost is a factor."""
    above = 1 + x
    kept = above - 1
    # Nothing is lost of what is large, or infinite.
    factor = torch.where(kept == x, 1.0, x / kept)
    return torch.where(above == 1, x, torch.log(above) * factor)


@_in_float32
def _expm1(x: Any) -> Any:
    """Return `exp(x) - 1`, with all digits of a small `x`: as a quotient of the tangent of its half."""
    tangent = torch.tanh(x / 2)
    return torch.where(x.abs() < _SMALL, 2 * tangent / (1 - tangent), torch.exp(x) - 1)


def _hypot(x: Any, y: Any) -> Any:
    """Return the length of each `(x, y)`, no square of which overflows or vanishes."""
    x, y = x.abs(), y.abs()
    larger, smaller = torch.maximum(x, y), torch.minimum(x, y)
    ratio = torch.where(larger == 0, 0.0, smaller / larger)
    # One that is infinite is longer than one that is no number.
    return torch.where((x == math.inf) | (y == math.inf), math.inf, larger * torch.sqrt(1 + ratio * ratio))


def _xlogy(x: Any, y: Any) -> Any:
    """Return `x * log(y)`, and 0 where `x` is 0, unless `y` is no number."""
    y = y if isinstance(y, torch.Tensor) else torch.full_like(x, y, dtype=torch.float32)
    y = y if y.is_floating_point() else y.to(torch.get_default_dtype())
    x = x if isinstance(x, torch.Tensor) else torch.full_like(y, x)
    return torch.where(y.isnan(), y, torch.where(x == 0, 0.0, x * torch.log(y)))


@_in_float32
def _atan2(y: Any, x: Any) -> Any:
    """Return the angle of each point; that of `(-1, 0)` is pi, and of `(-1, -0.0)` it is -pi."""
    is_left, is_below = signbit(x), signbit(y)
    # The quotient of two that are infinite is no number.
    ratio = torch.where(x.abs() == y.abs(), torch.where(is_left ^ is_below, -1.0, 1.0), y / x)
    angle = torch.atan(ratio).masked_fill((x == 0) & (y == 0), 0.0)
    return torch.where(is_left, torch.where(is_below, angle - math.pi, angle + math.pi), angle)


def _log_sigmoid(x: Any) -> Any:
    return x.clamp(max=0) - torch.log1p(torch.exp(-x.abs()))


def _logaddexp(x: Any, y: Any) -> Any:
    larger = torch.maximum(x, y)
    # The difference of two that are infinite alike is no number.
    return torch.where(x == y, larger + math.log(2), larger + torch.log1p(torch.exp(-(x - y).abs())))


def _logaddexp2(x: Any, y: Any) -> Any:
    larger = torch.maximum(x, y)
    return torch.where(x == y, larger + 1, larger + torch.log1p(torch.exp2(-(x - y).abs())) / math.log(2))


def distances(x: Any, y: Any, p: float, compute_mode: int | None = None) -> Any:
    """Return the distance of each row of `(..., rows, size)` from each of `(..., others, size)`."""
    counts = (x.shape[-2], y.shape[-2])
    is_few = all(isinstance(count, int) and count <= _FEW_ROWS for count in counts)
    if p != 2 or is_few or compute_mode == _NEVER_PRODUCTS:
        return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), ord=p, dim=-1)
    squares = x.square().sum(-1).unsqueeze(-1) + y.square().sum(-1).unsqueeze(-2)
    return (squares - 2 * (x @ y.transpose(-2, -1))).clamp(min=0).sqrt()
