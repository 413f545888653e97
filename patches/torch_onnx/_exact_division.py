"""Rounded quotients, and remainders, as torch has them: by the remainder of a truncated one, which is exact."""

from collections.abc import Callable
from typing import Any

import torch


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator."""
    aten = torch.ops.aten
    return {
        aten.floor_divide.default: _floor_divide,
        aten.floor_divide.Scalar: _floor_divide,
        aten.div.Tensor_mode: _divide,
        aten.div.Scalar_mode: _divide,
        aten.remainder.Tensor: _remainder,
        aten.remainder.Scalar: _remainder,
        aten.remainder.Scalar_Tensor: _remainder,
    }


def of_integers() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator that rounds quotients of integers down, which an older onnxscript lacks."""
    return {torch.ops.aten.floor_divide.default: _whole, torch.ops.aten.floor_divide.Scalar: _whole}


def _whole(x: Any, y: Any) -> Any:
    """Return the quotient, rounded down; of integers exact up to 2**53, the largest that float64 counts to."""
    wide, other, dtype = _alike(x, y)
    if dtype.is_floating_point:
        return _floor_divide(x, y)
    multiple = wide - torch.remainder(wide, other)
    return (multiple.to(torch.float64) / other.to(torch.float64)).round().to(dtype)


def _floor_divide(x: Any, y: Any) -> Any:
    """Return the quotient, rounded down; of integers onnxscript has it right."""
    is_truth = isinstance(x, torch.Tensor) and x.dtype == torch.bool
    x, y, dtype = _alike(x, y)
    if not dtype.is_floating_point:
        return torch.floor_divide(x, y) if is_truth and dtype != torch.bool else NotImplemented
    rest = torch.fmod(x, y)
    quotient = (x - rest) / y
    quotient = torch.where(_is_apart(rest, y), quotient - 1, quotient)
    floor = quotient.floor()
    # What was subtracted may have left the quotient a little below the whole number that it is.
    floor = torch.where(quotient - floor > 0.5, floor + 1, floor)
    return torch.where(y == 0, x / y, floor).to(dtype)


def _divide(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    """Return the quotient, rounded down or towards 0; of integers onnxscript computes both in float32."""
    wide, other, dtype = _alike(x, y)
    if rounding_mode == "floor":
        return torch.floor_divide(wide, other).to(dtype)
    if rounding_mode is None or dtype.is_floating_point:
        return NotImplemented
    return torch.floor_divide(wide - torch.fmod(wide, other), other)


def _remainder(x: Any, y: Any) -> Any:
    """Return the remainder, which has the sign of what was divided by; of integers onnxscript has it right."""
    wide, other, dtype = _alike(x, y)
    if not dtype.is_floating_point:
        both = isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)
        return NotImplemented if both else torch.remainder(wide, other)
    rest = torch.fmod(wide, other)
    return torch.where(_is_apart(rest, other), rest + other, rest).to(dtype)


def _is_apart(rest: Any, y: Any) -> Any:
    """Return where there is a remainder, of another sign than what was divided by."""
    return (rest != 0) & ((rest < 0) != (y < 0))


def _alike(x: Any, y: Any) -> tuple[Any, Any, torch.dtype]:
    """Return both as tensors of the type that torch computes in, and the type of the result."""
    given = x if isinstance(x, torch.Tensor) else y
    dtype = torch.result_type(*(_example(part) for part in (x, y)))
    # In half precision torch computes in float32, and rounds once.
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    parts = (
        part.to(wide) if isinstance(part, torch.Tensor) else torch.full((), part, dtype=wide, device=given.device)
        for part in (x, y)
    )
    return (*parts, dtype)


def _example(part: Any) -> Any:
    """Return a number that stands for a symbolic one, of which torch does not tell the type."""
    kinds = ((torch.SymInt, 0), (torch.SymFloat, 0.0))
    return next((number for kind, number in kinds if isinstance(part, kind)), part)
