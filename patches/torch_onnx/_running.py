"""Results of all elements up to each one, by steps of doubling length: of an axis whose length is not known, too."""

import functools
from collections.abc import Callable
from typing import Any

import torch

STEPS = 31
"""Steps that are enough for an axis of any length that is not known: 2**31 places."""


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator that ONNX lacks."""
    return {torch.ops.aten.cummax.default: _cummax, torch.ops.aten.cummin.default: _cummin}


def corrections() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator that torch takes apart into what ONNX lacks, or with other numbers."""
    return {torch.ops.aten.cumprod.default: _cumprod, torch.ops.aten.logcumsumexp.default: _logcumsumexp}


def steps(length: Any) -> int:
    """Return how many steps of doubling length go through an axis."""
    return (length - 1).bit_length() if isinstance(length, int) else STEPS


def _cummax(x: Any, dim: int) -> tuple[Any, Any]:
    return _running(x, dim, torch.ge)


def _cummin(x: Any, dim: int) -> tuple[Any, Any]:
    return _running(x, dim, torch.le)


def of_one_element(function: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
    """Return a function that finds elements along an axis, made to answer for a tensor without one: itself, at 0."""

    @functools.wraps(function)
    def find(x: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
        return function(x, *args, **options) if x.dim() else (x.clone(), torch.zeros_like(x, dtype=torch.int64))

    return find


@of_one_element
def _running(x: Any, dim: int, is_better: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """Return the best element up to each one, and its place: the last of equal ones, and NaN once there is one.

    After step k each place knows the 2**k elements up to it. To see an element twice changes nothing, so the first
    one stands for what is before it.

    Args:
        x: `(..., length, ...)`, of numbers.
        dim: the axis.
        is_better: whether a later element takes the place of an earlier one.
    """
    places = torch.arange(x.shape[dim], device=x.device)
    best, index = x, along(places, x, dim).expand(x.shape)
    for step in range(steps(x.shape[dim])):
        before = (places - (1 << step)).clamp(min=0)
        earlier = best.index_select(dim, before)
        stays = is_better(best, earlier)
        if x.is_floating_point():
            stays = best.isnan() | (stays & ~earlier.isnan())
        best = torch.where(stays, best, earlier)
        index = torch.where(stays, index, index.index_select(dim, before))
    return best, index


def _cumprod(x: Any, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """Return the product of all elements up to each one; of integers in int64."""
    found = dtype or (x.dtype if x.is_floating_point() else torch.int64)
    wide = torch.float32 if found in (torch.float16, torch.bfloat16) else found
    return _combined(x.to(wide), dim, torch.mul).to(found)


def _logcumsumexp(x: Any, dim: int) -> Any:
    """Return the logarithm of the sum of exponentials up to each one, no part of which overflows or vanishes."""
    return _combined(x, dim, torch.logaddexp)


def _combined(x: Any, dim: int, combine: Callable[[Any, Any], Any]) -> Any:
    """Return what all elements up to each one combine to, in any grouping.

    Args:
        x: `(..., length, ...)`.
        dim: the axis.
        combine: an associative function of two tensors.
    """
    if not x.dim():
        return x.clone()
    places = torch.arange(x.shape[dim], device=x.device)
    for step in range(steps(x.shape[dim])):
        before = places - (1 << step)
        earlier = x.index_select(dim, before.clamp(min=0))
        x = torch.where(along(before, x, dim) >= 0, combine(x, earlier), x)
    return x


def along(places: Any, x: Any, dim: int) -> Any:
    """Return `(length,)` as a tensor that broadcasts along an axis of another."""
    shape = [1] * x.dim()
    shape[dim] = -1
    return places.view(shape)
