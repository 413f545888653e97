"""Signs, and the larger of two, as torch has them for zeros with a sign and for what is no number."""

import math
from collections.abc import Callable
from typing import Any

import torch


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator."""
    aten = torch.ops.aten
    return {
        aten.copysign.Scalar: _copysign,
        aten.copysign.Tensor: _copysign,
        aten.fmax.default: _fmax,
        aten.fmin.default: _fmin,
        aten.heaviside.default: _heaviside,
        aten.sgn.default: _sign,
        aten.sign.default: _sign,
        aten.signbit.default: signbit,
    }


def _sign(x: Any) -> Any:
    """Return the sign, -1, 0 or 1; that of NaN is 0, and ONNX has NaN."""
    if not x.is_floating_point():
        return NotImplemented
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


def _heaviside(x: Any, values: Any) -> Any:
    """Return 1 above 0 and 0 below it, and for NaN; at 0 what is given."""
    return torch.where(x == 0, values, (x > 0).to(x.dtype))


def signbit(x: Any) -> Any:
    """Return where a number is below 0, or is -0.0, which a comparison does not see."""
    return (x < 0) | (1 / x < 0) if x.is_floating_point() else x < 0


def _copysign(x: Any, y: Any) -> Any:
    """Return `x` with the sign of `y`."""
    dtype = torch.result_type(x, y)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    size = x.to(dtype).abs()
    if not isinstance(y, torch.Tensor):
        return -size if math.copysign(1, y) < 0 else size
    return torch.where(signbit(y), -size, size)


def _fmax(x: Any, y: Any) -> Any:
    return _of_numbers(torch.maximum, x, y)


def _fmin(x: Any, y: Any) -> Any:
    return _of_numbers(torch.minimum, x, y)


def _of_numbers(choose: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """Return what is chosen of two; where one is no number, the other."""
    dtype = torch.result_type(x, y)
    x, y = x.to(dtype), y.to(dtype)
    if not dtype.is_floating_point:
        return choose(x, y)
    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, choose(x, y)))
