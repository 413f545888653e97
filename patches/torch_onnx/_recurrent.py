"""Recurrent layers that the exporter has no function for: plain ones, and long short-term memory with a projection."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

_OPSET = 14
"""The version of `RNN` that has no layout of its own."""


def corrections() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator: torch's own goes step by step over the length of the sample."""
    aten = torch.ops.aten
    # An older torch cannot name an operator of ONNX.
    plain = {
        aten.rnn_relu.input: partial(_recurrent, "Relu"),
        aten.rnn_tanh.input: partial(_recurrent, "Tanh"),
    }
    return {aten.lstm.input: _projected, **(plain if hasattr(torch.onnx, "ops") else {})}


def _recurrent(
    activation: str,
    x: Any,
    states: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, Any]:
    """Return what plain recurrent layers make of `x`, `(length, batch, channels)`, and their last states."""
    x = x.transpose(0, 1) if batch_first else x
    directions = 2 if bidirectional else 1
    size = len(params) // (num_layers * directions)
    last = []
    for layer in range(num_layers):
        rows = range(layer * directions, (layer + 1) * directions)
        weights = [params[size * row : size * (row + 1)] for row in rows]
        x, state = _layer(
            activation, x, states[rows.start : rows.stop], [torch.stack(w) for w in zip(*weights, strict=True)]
        )
        x = _dropped(x, dropout, is_wanted=train and layer < num_layers - 1)
        last.append(state)
    return x.transpose(0, 1) if batch_first else x, torch.cat(last)


def _dropped(x: Any, rate: float, *, is_wanted: bool) -> Any:
    """Return what goes on to the next layer: in training some of it is left out."""
    return torch.dropout(x, rate, train=True) if is_wanted else x


def _layer(activation: str, x: Any, state: Any, weights: Sequence[Any]) -> tuple[Any, Any]:
    """Return the result of one layer, `(length, batch, directions * states)`, and its last state.

    Args:
        activation: ONNX' name of it.
        x: `(length, batch, channels)`.
        state: `(directions, batch, states)`.
        weights: of the input, of the state, and their biases if there are any, of all directions.
    """
    directions, batch, size = state.shape
    bias = torch.cat(list(weights[2:]), 1) if len(weights) > 2 else None
    attributes = {
        "activations": [activation] * directions,
        "direction": "bidirectional" if directions > 1 else "forward",
        "hidden_size": size,
    }
    found, last = torch.onnx.ops.symbolic_multi_out(
        "RNN",
        (x, weights[0], weights[1], bias, None, state),
        attributes,
        dtypes=(x.dtype, x.dtype),
        shapes=((x.shape[0], directions, batch, size), state.shape),
        version=_OPSET,
    )
    return found.transpose(1, 2).reshape(x.shape[0], batch, directions * size), last


def _projected(
    x: Any,
    states: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Return what layers with a projection make of `x`: those of layers without one, projected.

    A projected state reaches the gates by one matrix, a state by the product of that with the projection. The state
    that is given is no projection of anything; it is one more input of the first step, and comes by the same matrix.
    """
    hidden, cells = states
    if hidden.shape[2] == cells.shape[2]:
        return NotImplemented
    x = x.transpose(0, 1) if batch_first else x
    directions = 2 if bidirectional else 1
    size = len(params) // (num_layers * directions)
    last: list[Any] = []
    for layer in range(num_layers):
        found = []
        for row in range(layer * directions, (layer + 1) * directions):
            weights = params[size * row : size * (row + 1)]
            is_reversed = row % directions == 1
            y, *end = _projected_layer(x.flip(0) if is_reversed else x, hidden[row], cells[row], weights, has_biases)
            found.append(y.flip(0) if is_reversed else y)
            last.append(end)
        x = _dropped(torch.cat(found, 2), dropout, is_wanted=train and layer < num_layers - 1)
    ends = [torch.stack(rows) for rows in zip(*last, strict=True)]
    return x.transpose(0, 1) if batch_first else x, *ends


def _projected_layer(x: Any, hidden: Any, cell: Any, weights: Sequence[Any], has_biases: bool) -> tuple[Any, Any, Any]:
    """Return the projected result of one direction of a layer, `(length, batch, size)`, and its last states."""
    w_input, w_state, *biases, projection = weights
    first = torch.arange(x.shape[0], device=x.device)[:, None, None] == 0
    given = torch.where(first, hidden, torch.zeros_like(hidden))
    found, _, last = torch.ops.aten.lstm.input(
        torch.cat([x, given], 2),
        [torch.zeros_like(cell)[None], cell[None]],
        [torch.cat([w_input, w_state], 1), w_state @ projection, *biases],
        has_biases,
        1,
        0.0,
        False,
        False,
        False,
    )
    y = found @ projection.transpose(0, 1)
    # Without a step there is no last one; torch refuses such a call.
    return y, y[-1], last[0]
