"""Elements by their rank, for which ONNX has a sort alone."""

from collections.abc import Callable
from typing import Any

import torch

from ._running import of_one_element


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator."""
    aten = torch.ops.aten
    return {
        aten.kthvalue.default: _kthvalue,
        aten.median.default: _median_of_all,
        aten.median.dim: _median,
        aten.mode.default: _mode,
        aten.nanmedian.default: _nanmedian_of_all,
        aten.nanmedian.dim: _nanmedian,
        aten.sort.stable: _sort,
    }


def _sort(x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
    """Return the elements in order along an axis, and their places; ONNX has the first of equal ones first."""
    values, order = torch.sort(x.to(torch.int32) if x.dtype == torch.bool else x, dim, descending)
    return values.to(x.dtype), order


@of_one_element
def _kthvalue(x: Any, k: Any, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """Return the k-th smallest element along an axis, counted from 1, and its place; NaN is behind all numbers."""
    values, order = _sorted(x, dim)
    return _without_axis(values.narrow(dim, k - 1, 1), order.narrow(dim, k - 1, 1), dim, keepdim)


@of_one_element
def _median(x: Any, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """Return the lower median along an axis and its place; NaN where there is one."""
    values, order = _sorted(x, dim)
    rank = torch.full_like(order.narrow(dim, 0, 1), (x.shape[dim] - 1) // 2)
    if x.is_floating_point():
        is_nan = values.isnan()
        first = (~is_nan).to(torch.int64).sum(dim, keepdim=True)
        rank = torch.where(is_nan.any(dim, keepdim=True), first, rank)
    return _at(values, order, rank, dim, keepdim)


def _nanmedian(x: Any, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """Return the lower median of the numbers along an axis and its place; NaN where there is no number."""
    if not x.is_floating_point() or not x.dim():
        return _median(x, dim, keepdim)
    values, order = _sorted(x, dim)
    count = (~values.isnan()).to(torch.int64).sum(dim, keepdim=True)
    return _at(values, order, (count - 1).clamp(min=0) // 2, dim, keepdim)


def _median_of_all(x: Any) -> Any:
    return _median(x.reshape(-1), 0)[0]


def _nanmedian_of_all(x: Any) -> Any:
    return _nanmedian(x.reshape(-1), 0)[0]


@of_one_element
def _mode(x: Any, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """Return the element that is there most often, the smallest of several, and the last of its places.

    Sorted, equal elements are a run. Each run has a number, and the longest of them is sought.
    """
    values, order = _sorted(x, dim)
    length = x.shape[dim]
    begins = values.narrow(dim, 1, length - 1) != values.narrow(dim, 0, length - 1)
    first = torch.zeros_like(order.narrow(dim, 0, 1))
    run = torch.cat([first, begins.to(torch.int64).cumsum(dim)], dim)
    lengths = torch.zeros_like(order).scatter_add(dim, run, torch.ones_like(order))
    longest = lengths.argmax(dim, keepdim=True)
    last = lengths.cumsum(dim).gather(dim, longest) - 1
    return _at(values, order, last, dim, keepdim)


def _sorted(x: Any, dim: int) -> tuple[Any, Any]:
    """Return the elements along an axis from the smallest on, and their places, the first of equal ones first."""
    return _sort(x, dim=dim)


def _at(values: Any, order: Any, rank: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """Return the values and places at ranks, `(..., 1, ...)`."""
    return _without_axis(values.gather(dim, rank), order.gather(dim, rank), dim, keepdim)


def _without_axis(values: Any, places: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """Return values and places without their axis of size 1, unless it is to be kept."""
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))
