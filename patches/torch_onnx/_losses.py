"""Losses with all that torch can be given: ONNX has cross entropy for classes without smoothing alone."""

from collections.abc import Callable
from typing import Any

import torch

from ._running import along

_NONE, _MEAN = 0, 1
"""Ways of a reduction, beside the sum."""


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator."""
    aten = torch.ops.aten
    return {aten.cross_entropy_loss.default: _cross_entropy, aten.soft_margin_loss.default: _soft_margin}


def _soft_margin(x: Any, target: Any, reduction: int = _MEAN) -> Any:
    """Return the loss of a margin in the type of `x`; torch takes it apart in that of the target, if it is wider."""
    if x.dtype == target.dtype:
        return NotImplemented
    return torch.ops.aten.soft_margin_loss.default(x, target.to(x.dtype), reduction)


def _cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    reduction: int = _MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """Return the cross entropy of `(rows, classes, ...)`, or `(classes,)`.

    Args:
        x: logits.
        target: a class for each row, `(rows, ...)`, or probabilities like `x`.
        weight: `(classes,)`, or None.
        reduction: 0 for none, 1 for the mean, 2 for the sum.
        ignore_index: a class that does not count.
        label_smoothing: how much of each target goes to all classes alike.
    """
    if not label_smoothing and not target.is_floating_point():
        return NotImplemented
    axis = min(x.dim() - 1, 1)
    classes, likelihood = x.shape[axis], torch.log_softmax(x, axis)
    weighed = likelihood if weight is None else likelihood * along(weight, x, axis)
    if target.is_floating_point():
        loss = -(weighed * (target * (1 - label_smoothing) + label_smoothing / classes)).sum(axis)
        return _reduced(loss, torch.ones_like(loss), reduction)
    counts = target != ignore_index
    known = torch.where(counts, target, 0)
    weights = torch.ones_like(known, dtype=x.dtype) if weight is None else weight[known]
    weights = torch.where(counts, weights, 0.0)
    of_target = likelihood.gather(axis, known.unsqueeze(axis)).squeeze(axis) * weights
    of_all = torch.where(counts, weighed.sum(axis), 0.0)
    return _reduced(-(1 - label_smoothing) * of_target - label_smoothing / classes * of_all, weights, reduction)


def _reduced(loss: Any, weights: Any, reduction: int) -> Any:
    """Return what becomes of the losses of all rows."""
    if reduction == _NONE:
        return loss
    return loss.sum() / weights.sum() if reduction == _MEAN else loss.sum()
