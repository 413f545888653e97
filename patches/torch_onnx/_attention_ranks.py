"""Attention of tensors with another number of axes than four, which is all that the exporter takes."""

import math
from collections.abc import Callable
from typing import Any

import torch

_RANK = 4
"""Of `(batch, heads, length, channels)`."""


def corrections() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator that is translated, but not for every call."""
    return {torch.ops.aten.scaled_dot_product_attention.default: _attention}


def _attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return attention of tensors of any rank, by that of four axes: those before the heads are one.

    Tensors are broadcast along these before, as torch does it; of three axes the first is that of the heads.
    """
    tensors = (query, key, value)
    if all(item.dim() == _RANK for item in tensors) and (attn_mask is None or attn_mask.dim() <= _RANK):
        return NotImplemented
    rows = torch.broadcast_shapes(*(item.shape[:-3] for item in tensors))
    mask = attn_mask
    if mask is not None and mask.dim() >= _RANK:
        mask = _of_four(mask, torch.broadcast_shapes(rows, mask.shape[:-3]))
    found = torch.nn.functional.scaled_dot_product_attention(
        *(_of_four(item, rows) for item in tensors), mask, *args, **kwargs
    )
    rank = max(item.dim() for item in tensors)
    return found.reshape(*rows, *found.shape[1:]) if rank > 2 else found[0, 0]


def _of_four(x: Any, rows: Any) -> Any:
    """Return `(rows, heads, length, channels)`; what has less axes has one head or row."""
    while x.dim() < 3:
        x = x.unsqueeze(0)
    return x.expand(*rows, *x.shape[-3:]).reshape(math.prod(rows), *x.shape[-3:])
