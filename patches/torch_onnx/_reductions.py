"""Elements that are chosen or put together, of which ONNX has the parts alone."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._running import along


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator that ONNX lacks."""
    aten = torch.ops.aten
    return {
        aten.index_reduce.default: _index_reduce,
        aten.masked_select.default: _masked_select,
        aten.scatter.reduce: _scatter,
        aten.scatter.value_reduce: _scatter,
    }


def corrections() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator that is translated, but not for every call."""
    aten = torch.ops.aten
    return {
        aten._unique2.default: _unique,
        aten.aminmax.default: _aminmax,
        aten.any.default: _any,
        aten.any.dim: _any,
        aten.any.dims: _any,
        aten.roll.default: _roll,
        aten.stack.default: _stack,
    }


def _masked_select(x: Any, mask: Any) -> Any:
    """Return the elements of `x` where the mask is true, `(count,)`; both broadcast together."""
    x, mask = torch.broadcast_tensors(x, mask)
    return x[mask]


def _scatter(x: Any, dim: int, index: Any, source: Any, *, reduce: str) -> Any:
    """Return `x`, with what is scattered added or multiplied to it."""
    source = source if isinstance(source, torch.Tensor) else torch.full_like(index, source, dtype=x.dtype)
    return torch.scatter_reduce(x, dim, index, source, "sum" if reduce == "add" else "prod", include_self=True)


def _index_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Return `x`, with whole slices put together at the places that an index names along one axis."""
    places = along(index, x, dim).expand(source.shape)
    return torch.scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


def _unique(x: Any, *args: Any, **options: Any) -> Any:
    """Return the different booleans, sought as numbers, for which ONNX Runtime has a kernel."""
    if x.dtype != torch.bool:
        return NotImplemented
    found, *others = torch.ops.aten._unique2.default(x.to(torch.int64), *args, **options)
    return found.to(torch.bool), *others


def _aminmax(x: Any, *, dim: int | None = None, keepdim: bool = False) -> tuple[Any, Any]:
    """Return the least and the largest element, of all or along an axis."""
    axes = list(range(x.dim())) if dim is None else [dim]
    return torch.amin(x, axes, keepdim), torch.amax(x, axes, keepdim)


def _any(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return whether there is an element that is not 0, which of none is false; onnxscript has the largest of none."""
    axes = list(range(x.dim())) if dim is None else dim
    truths = x if x.dtype == torch.bool else x != 0
    found = truths.to(torch.int64).sum(axes, keepdim) > 0
    return found.to(torch.uint8) if x.dtype == torch.uint8 else found


def _stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Return tensors of several types as one of the type that has them all."""
    if len({tensor.dtype for tensor in tensors}) == 1:
        return NotImplemented
    dtype = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    return torch.stack([tensor.to(dtype) for tensor in tensors], dim)


def _roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    """Return a tensor whose axes are shifted by sizes; onnxscript takes numbers alone."""
    shifts, dims = (list(item) if isinstance(item, list | tuple) else [item] for item in (shifts, dims))
    if all(isinstance(shift, int) for shift in shifts):
        return NotImplemented
    if not dims:
        return _roll(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        length = x.shape[dim]
        x = x.index_select(dim, torch.remainder(torch.arange(length, device=x.device) - shift, length))
    return x
