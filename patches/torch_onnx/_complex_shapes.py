"""Operators that move complex numbers: those of their two parts, which have one axis more."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ._integers import table as integers


def corrections() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator that onnxscript has for real numbers alone."""
    aten = torch.ops.aten
    moved = (aten.gather.default, aten.index_select.default, aten.select.int, aten.squeeze.dims)
    return {
        **{operator: partial(_moved, operator) for operator in moved},
        aten.embedding.default: _embedding,
        aten.expand.default: _expand,
        aten.index.Tensor: partial(_index, integers()[aten.index.Tensor]),
        aten.repeat.default: _repeat,
        aten.unsqueeze.default: _unsqueeze,
    }


def _moved(operator: Any, x: Any, dim: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what an operator makes of `x` along an axis, or several; a gather has an index for each part."""
    if not x.is_complex():
        return NotImplemented
    dims = [axis % x.dim() for axis in dim] if isinstance(dim, (list, tuple)) else dim % x.dim()
    if operator is torch.ops.aten.gather.default:
        args = (args[0].unsqueeze(-1).expand(*args[0].shape, 2), *args[1:])
    return _whole(operator(torch.view_as_real(x), dims, *args, **kwargs))


def _embedding(weight: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
    return _whole(torch.view_as_real(weight)[indices]) if weight.is_complex() else NotImplemented


def _expand(x: Any, size: Sequence[Any], *, implicit: bool = False) -> Any:
    return _whole(torch.view_as_real(x).expand(*size, 2)) if x.is_complex() else NotImplemented


def _index(of_real_numbers: Callable[..., Any], x: Any, indices: Sequence[Any]) -> Any:
    if not x.is_complex():
        return of_real_numbers(x, indices)
    return _whole(torch.ops.aten.index.Tensor(torch.view_as_real(x), list(indices)))


def _repeat(x: Any, repeats: Sequence[Any]) -> Any:
    return _whole(torch.view_as_real(x).repeat(*repeats, 1)) if x.is_complex() else NotImplemented


def _unsqueeze(x: Any, dim: int) -> Any:
    if not x.is_complex():
        return NotImplemented
    return _whole(torch.view_as_real(x).unsqueeze(dim % (x.dim() + 1)))


def _whole(parts: Any) -> Any:
    """Return the complex numbers of their parts, which torch wants next to each other in memory."""
    return torch.view_as_complex(parts if parts.stride(-1) == 1 else parts.contiguous())
