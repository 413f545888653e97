"""Functions of integers that ONNX lacks, or that ONNX Runtime has no kernel for."""

from collections.abc import Callable
from typing import Any

import torch


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator."""
    aten = torch.ops.aten
    return {
        aten.__lshift__.Tensor: torch.bitwise_left_shift,
        aten.__rshift__.Tensor: torch.bitwise_right_shift,
        aten.addmm.default: _addmm,
        aten.bitwise_right_shift.Tensor: _right_shift,
        aten.__rshift__.Scalar: _right_shift,
        aten.gcd.default: _gcd,
        aten.index.Tensor: _at_int64(aten.index.Tensor),
        aten.index_put.default: _at_int64(aten.index_put.default),
        aten.lcm.default: _lcm,
        aten.relu.default: _relu,
        aten.repeat_interleave.Tensor: _repeat_interleave,
        **{operator.default: _never for operator in (aten.isinf, aten.isnan)},
        aten.isfinite.default: _always,
        **{operator.default: _whole for operator in (aten.ceil, aten.floor, aten.round, aten.trunc)},
    }


def _right_shift(x: Any, places: Any) -> Any:
    """Return integers without a sign, shifted; onnxscript gives them one."""
    if x.dtype != torch.uint8:
        return NotImplemented
    signed = x.to(torch.int32)
    places = places.to(torch.int32) if isinstance(places, torch.Tensor) else torch.full_like(signed, places)
    return torch.bitwise_right_shift(signed, places).to(torch.uint8)


def _addmm(x: Any, left: Any, right: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return a product of integers plus `x`, for which ONNX Runtime has no `Gemm`."""
    return NotImplemented if x.is_floating_point() else x * beta + (left @ right) * alpha


def _at_int64(operator: Any) -> Callable[..., Any]:
    """Return an operator that takes places in int32, for which ONNX has int64 alone."""

    def compute(x: Any, places: Any, *args: Any, **options: Any) -> Any:
        is_narrow = [place is not None and place.dtype == torch.int32 for place in places]
        if not any(is_narrow):
            return NotImplemented
        pairs = zip(places, is_narrow, strict=True)
        wide = [place.to(torch.int64) if narrow else place for place, narrow in pairs]
        return operator(x, wide, *args, **options)

    return compute


def _repeat_interleave(repeats: Any, **options: Any) -> Any:
    """Return the place of each repetition, in the type of the numbers of them; ONNX counts in int64 alone."""
    if repeats.dtype == torch.int64:
        return NotImplemented
    return torch.ops.aten.repeat_interleave.Tensor(repeats.to(torch.int64), **options).to(repeats.dtype)


def _gcd(x: Any, y: Any) -> Any:
    """Return the greatest common divisor, by remainders of the least size, each of which is a half at most."""
    dtype = torch.result_type(x, y)
    x, y = x.to(dtype).abs(), y.to(dtype).abs()
    for _ in range(torch.iinfo(dtype).bits):
        is_done = y == 0
        rest = torch.remainder(x, torch.where(is_done, 1, y))
        x, y = torch.where(is_done, x, y), torch.where(is_done, 0, torch.minimum(rest, y - rest))
    return x


def _lcm(x: Any, y: Any) -> Any:
    """Return the least common multiple, and 0 where one of both is 0."""
    divisor = torch.gcd(x, y)
    return (torch.floor_divide(x, torch.where(divisor == 0, 1, divisor)) * y).abs()


def _relu(x: Any) -> Any:
    return NotImplemented if x.is_floating_point() else x.clamp(min=0)


def _whole(x: Any, **options: Any) -> Any:
    """Return integers as they are, which are rounded already."""
    return NotImplemented if x.is_floating_point() else x.clone()


def _never(x: Any) -> Any:
    return NotImplemented if x.is_floating_point() else torch.zeros_like(x, dtype=torch.bool)


def _always(x: Any) -> Any:
    return NotImplemented if x.is_floating_point() else torch.ones_like(x, dtype=torch.bool)
