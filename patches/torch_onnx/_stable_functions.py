"""Functions of which ONNX has the parts alone, put together so that no number overflows or changes its side."""

import math
from collections.abc import Callable
from typing import Any

import torch

_FEW_ROWS = 25
"""Rows up to which torch takes the differences themselves; of more it takes products, and so does this."""

_NEVER_PRODUCTS = 2
"""`compute_mode` of `cdist` for differences at any number of rows."""


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator that onnxscript translates, but not for every number."""
    aten = torch.ops.aten
    return {
        aten.atan2.default: _atan2,
        aten.log_sigmoid.default: _log_sigmoid,
        aten.logaddexp.default: _logaddexp,
    }


def _atan2(y: Any, x: Any) -> Any:
    """Return the angle of each point; that of `(-1, 0)` is pi, and of `(-1, -0.0)` it is -pi."""
    # A zero has a sign, which a comparison does not see.
    is_left, is_below = ((part < 0) | (1 / part < 0) for part in (x, y))
    angle = torch.atan(y / x).masked_fill((x == 0) & (y == 0), 0.0)
    return torch.where(is_left, torch.where(is_below, angle - math.pi, angle + math.pi), angle)


def _log_sigmoid(x: Any) -> Any:
    return x.clamp(max=0) - torch.log1p(torch.exp(-x.abs()))


def _logaddexp(x: Any, y: Any) -> Any:
    larger = torch.maximum(x, y)
    # The difference of two that are infinite alike is no number.
    return torch.where(x == y, larger + math.log(2), larger + torch.log1p(torch.exp(-(x - y).abs())))


def distances(x: Any, y: Any, p: float, compute_mode: int | None = None) -> Any:
    """Return the distance of each row of `(..., rows, size)` from each of `(..., others, size)`."""
    counts = (x.shape[-2], y.shape[-2])
    is_few = all(isinstance(count, int) and count <= _FEW_ROWS for count in counts)
    if p != 2 or is_few or compute_mode == _NEVER_PRODUCTS:
        return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), ord=p, dim=-1)
    squares = x.square().sum(-1).unsqueeze(-1) + y.square().sum(-1).unsqueeze(-2)
    return (squares - 2 * (x @ y.transpose(-2, -1))).clamp(min=0).sqrt()
