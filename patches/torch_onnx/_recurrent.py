"""Recurrent layers that the exporter has no right function for.

Plain ones, gated ones (the function of onnxscript before 0.7.1 resets another product than torch), and long short-term
memory with a projection.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

_OPSET = 14
"""The version of `RNN` and `GRU` that has no layout of its own."""


def corrections() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator: torch's own goes step by step over the length of the sample."""
    aten = torch.ops.aten
    # An older torch cannot name an operator of ONNX.
    plain = {
        aten.rnn_relu.input: partial(_recurrent, "Relu"),
        aten.rnn_tanh.input: partial(_recurrent, "Tanh"),
        aten.gru.input: partial(_recurrent, None),
    }
    return {aten.lstm.input: _projected, **(plain if hasattr(torch.onnx, "ops") else {})}


def _recurrent(activation: str | None, x: Any, states: Any, params: Sequence[Any], *options: Any) -> Any:
    """Return what layers, plain ones or gated ones, make of `x`, `(length, batch, channels)`, and their last states."""
    length = x.shape[1 if options[-1] else 0]
    if activation and x.dtype == torch.float64 and isinstance(length, int):
        # ONNX Runtime has no `RNN` of float64, and runs its steps.
        return NotImplemented

    def run(x: Any, rows: range, weights: list[Sequence[Any]]) -> tuple[Any, tuple[Any]]:
        stacked = [torch.stack(of_directions) for of_directions in zip(*weights, strict=True)]
        y, last = _layer(activation, x, states[rows.start : rows.stop], stacked)
        return y, (last,)

    return _through_layers(x, params, options, run)


def _through_layers(
    x: Any,
    params: Sequence[Any],
    options: Sequence[Any],
    run: Callable[[Any, range, list[Sequence[Any]]], tuple[Any, tuple[Any, ...]]],
) -> Any:
    """Return what layers make of `x`, and their last states, `(layers * directions, batch, size)` each.

    Args:
        x: `(length, batch, channels)`, or with the first two in the other order.
        params: the weights of all layers and directions, one after the other.
        options: what torch's operator takes behind the weights.
        run: makes of `x`, `(length, batch, channels)`, of the rows of states that a layer has, and of its weights in
            each direction the result of that layer and its last states, `(directions, batch, size)` each.
    """
    _, num_layers, dropout, train, bidirectional, batch_first = options
    x = x.transpose(0, 1) if batch_first else x
    directions = 2 if bidirectional else 1
    size = len(params) // (num_layers * directions)
    last = []
    for layer in range(num_layers):
        rows = range(layer * directions, (layer + 1) * directions)
        x, ends = run(x, rows, [params[size * row : size * (row + 1)] for row in rows])
        x = _dropped(x, dropout, is_wanted=train and layer < num_layers - 1)
        last.append(ends)
    return x.transpose(0, 1) if batch_first else x, *(torch.cat(ends) for ends in zip(*last, strict=True))


def _dropped(x: Any, rate: float, *, is_wanted: bool) -> Any:
    """Return what goes on to the next layer: in training some of it is left out."""
    return torch.dropout(x, rate, train=True) if is_wanted else x


def _layer(activation: str | None, x: Any, state: Any, weights: Sequence[Any]) -> tuple[Any, Any]:
    """Return the result of one layer, `(length, batch, directions * states)`, and its last state.

    Args:
        activation: ONNX' name of that of a plain layer; None for a gated one.
        x: `(length, batch, channels)`.
        state: `(directions, batch, states)`.
        weights: of the input, of the state, and their biases if there are any, of all directions.
    """
    directions, batch, size = state.shape
    weights = weights if activation else list(map(_with_updates_first, weights))
    bias = torch.cat(list(weights[2:]), 1) if len(weights) > 2 else None
    own = {"activations": [activation] * directions} if activation else {"linear_before_reset": 1}
    found, last = torch.onnx.ops.symbolic_multi_out(
        "RNN" if activation else "GRU",
        (x, weights[0], weights[1], bias, None, state),
        {**own, "direction": "bidirectional" if directions > 1 else "forward", "hidden_size": size},
        dtypes=(x.dtype, x.dtype),
        shapes=((x.shape[0], directions, batch, size), state.shape),
        version=_OPSET,
    )
    return found.transpose(1, 2).reshape(x.shape[0], batch, directions * size), last


def _with_updates_first(weight: Any) -> Any:
    """Return a weight, `(directions, 3 * states, ...)`, with its gates in ONNX' order: torch resets first."""
    reset, update, new = weight.chunk(3, 1)
    return torch.cat([update, reset, new], 1)


def _projected(x: Any, states: Sequence[Any], params: Sequence[Any], *options: Any) -> Any:
    """Return what layers with a projection make of `x`: those of layers without one, projected.

    A projected state reaches the gates by one matrix, a state by the product of that with the projection. The state
    that is given is no projection of anything; it is one more input of the first step, and comes by the same matrix.
    """
    hidden, cells = states
    if hidden.shape[2] == cells.shape[2]:
        return NotImplemented

    def run(x: Any, rows: range, weights: list[Sequence[Any]]) -> tuple[Any, tuple[Any, ...]]:
        found = [
            _projected_layer(x, hidden[row], cells[row], own, is_backward=row > rows.start)
            for row, own in zip(rows, weights, strict=True)
        ]
        y, *ends = zip(*found, strict=True)
        return torch.cat(y, 2), tuple(map(torch.stack, ends))

    return _through_layers(x, params, options, run)


def _projected_layer(
    x: Any, hidden: Any, cell: Any, weights: Sequence[Any], *, is_backward: bool
) -> tuple[Any, Any, Any]:
    """Return the projected result of one direction of a layer, `(length, batch, size)`, and its last states."""
    w_input, w_state, *biases, projection = weights
    x = x.flip(0) if is_backward else x
    first = torch.arange(x.shape[0], device=x.device)[:, None, None] == 0
    given = torch.where(first, hidden, torch.zeros_like(hidden))
    found, _, last = torch.ops.aten.lstm.input(
        torch.cat([x, given], 2),
        [torch.zeros_like(cell)[None], cell[None]],
        [torch.cat([w_input, w_state], 1), w_state @ projection, *biases],
        bool(biases),
        1,
        0.0,
        False,
        False,
        False,
    )
    y = found @ projection.transpose(0, 1)
    # Without a step there is no last one; torch refuses such a call.
    return y.flip(0) if is_backward else y, y[-1], last[0]
