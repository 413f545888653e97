"""Reduced axes, counted from the front: ONNX Runtime before 1.32 reduces no others of a tensor without elements."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ._exporter_table import or_else

_aten = torch.ops.aten

_REDUCTIONS = (
    _aten.all.dim,
    _aten.all.dims,
    _aten.amax.default,
    _aten.amin.default,
    _aten.argmax.default,
    _aten.argmin.default,
    _aten.linalg_vector_norm.default,
    _aten.max.dim,
    _aten.mean.dim,
    _aten.min.dim,
    _aten.prod.dim_int,
    _aten.sum.dim_IntList,
)


def from_the_front(functions: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Return the functions that take operators apart, with one for each reduction, in front of that which is there."""
    return {**functions, **{item: or_else(_counted(item), functions.get(item)) for item in _REDUCTIONS}}


def _counted(operator: Any) -> Callable[..., Any]:
    """Return a reduction that leaves calls whose axes count from the front, or whose tensor has elements for sure."""
    names = [argument.name for argument in operator._schema.arguments][1:]

    def reduce(x: Any, *args: Any, **options: Any) -> Any:
        options = {**dict(zip(names, args, strict=False)), **options}
        axes = options.get("dim")
        some = axes if isinstance(axes, list | tuple) else [] if axes is None else [axes]
        if all(axis >= 0 for axis in some) or not _may_be_empty(x) or _is_of_a_norm(operator, x, options):
            return NotImplemented
        front = [axis % x.dim() for axis in some]
        return operator(x, **{**options, "dim": front if some is axes else front[0]})

    return reduce


def _may_be_empty(x: Any) -> bool:
    """Say whether `x`, of any shape, has axes, and one of them may be without elements."""
    return not all(isinstance(size, int) and size > 0 for size in x.shape)


def _is_of_a_norm(operator: Any, x: Any, options: Mapping[str, Any]) -> bool:
    """Say whether this is the mean of a normalization, which is known by the last axis as -1 where such are fused.

    What it is divided by, or subtracted from, has no elements either.
    """
    return (
        operator is _aten.mean.dim
        and list(options["dim"]) == [-1]
        and bool(options.get("keepdim"))
        and isinstance(x.shape[-1], int)
    )
