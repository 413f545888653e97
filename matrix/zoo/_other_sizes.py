"""A second call of other sizes: what an export is compared on must not be what it was traced with."""

from typing import Any

from exportcompat._extras import require
from exportcompat._sample_inputs import Call

_BATCH, _MORE = 3, 5
"""Rows of the second call, and how many tokens it has more."""


def with_other_sizes(calls: list[Call]) -> list[Call]:
    """Return a call of two rows together with one of three and of more tokens; other calls as they are."""
    if len(calls) != 1 or not all(_has_two_rows(value) for value in calls[0].values()):
        return calls
    return [*calls, {name: _other(value, calls[0]) for name, value in calls[0].items()}]


def _has_two_rows(value: Any) -> bool:
    shape = getattr(value, "shape", None)
    return shape is None or (len(shape) > 0 and shape[0] == 2)


def _other(value: Any, call: Call) -> Any:
    torch = require("torch", "torch")
    if not hasattr(value, "shape"):
        return value
    rows = torch.cat([value, value.flip(0)])[:_BATCH]
    tokens: Any = call.get("input_ids")
    # Tokens, their mask and types, and boxes of words have an item for each of them.
    if tokens is None or value.shape[: tokens.dim()] != tokens.shape:
        return rows
    axis = tokens.dim() - 1
    return torch.cat([rows, rows.narrow(axis, 0, _MORE)], axis)
