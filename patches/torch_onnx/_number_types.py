"""Types of numbers that a translation takes too late, or not at all: booleans, and a type that a call asks for."""

from collections.abc import Callable
from typing import Any

import torch


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator."""
    aten = torch.ops.aten
    typed = (
        aten.cumsum.default,
        aten.log_softmax.int,
        aten.mean.default,
        aten.mean.dim,
        aten.prod.default,
        aten.prod.dim_int,
        aten.softmax.int,
        aten.sum.default,
        aten.sum.dim_IntList,
    )
    return {
        **{operator: _typed(operator) for operator in typed},
        aten.add.Tensor: _add,
        aten.max.dim: _of_truths(aten.max.dim),
        aten.min.dim: _of_truths(aten.min.dim),
        aten.pow.Tensor_Scalar: _power,
        aten.pow.Scalar: _power_of_a_number,
    }


def _typed(operator: Any) -> Callable[..., Any]:
    """Return an operator that computes in the type that is asked for, and does not cast what another type has found."""
    position = [argument.name for argument in operator._schema.arguments].index("dtype")

    def compute(x: Any, *args: Any, **options: Any) -> Any:
        asked = args[position - 1] if len(args) >= position else options.get("dtype")
        if asked is None or x.dtype == asked:
            return NotImplemented
        if asked.is_floating_point:
            # It is the type of the result by itself, and an older onnxscript takes none for a mean.
            args, options = args[: position - 1], {name: option for name, option in options.items() if name != "dtype"}
        return operator(x.to(asked), *args, **options)

    return compute


def _of_truths(operator: Any) -> Callable[..., Any]:
    """Return an operator that takes booleans for the numbers 0 and 1."""

    def compute(x: Any, *args: Any, **options: Any) -> Any:
        if x.dtype != torch.bool:
            return NotImplemented
        values, places = operator(x.to(torch.int32), *args, **options)
        return values.to(torch.bool), places

    return compute


def _add(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    """Return the sum of two tensors of booleans, which is whether there is a true one."""
    is_boolean = all(isinstance(part, torch.Tensor) and part.dtype == torch.bool for part in (x, y))
    if not is_boolean:
        return NotImplemented
    return torch.logical_or(x, y) if alpha else x


def _power(x: Any, exponent: Any) -> Any:
    """Return a power of booleans, which are numbers then; and a root, which an infinite number below 0 has not."""
    if x.is_floating_point() and exponent == 0.5:
        return torch.sqrt(x)
    if x.dtype != torch.bool:
        return NotImplemented
    return torch.pow(x.to(torch.int64 if isinstance(exponent, int) else torch.get_default_dtype()), exponent)


def _power_of_a_number(base: Any, exponent: Any) -> Any:
    """Return a power of a fraction with whole exponents, which is no whole number."""
    if not isinstance(base, float) or exponent.is_floating_point() or exponent.is_complex():
        return NotImplemented
    return torch.pow(base, exponent.to(torch.get_default_dtype()))
