"""Batch normalization in training: by the means of the batch, whatever the module has kept of others."""

from collections.abc import Callable
from typing import Any

import torch


def corrections() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator."""
    return {torch.ops.aten._native_batch_norm_legit_functional.default: _normalize}


def _normalize(x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float) -> Any:
    """Return what is normalized, the mean and the inverse deviation of the batch, and what is kept from now on."""
    if not training:
        return NotImplemented
    made = torch.ops.aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)
    axes = [axis for axis in range(x.dim()) if axis != 1]
    new = x.mean(axes), x.var(axes)
    return *made, *(momentum * now + (1 - momentum) * before for now, before in zip(new, (mean, var), strict=True))
