"""A padded batch with its lengths, which stands for a packed sequence in a graph."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import _VF

_ALWAYS = 1e4
"""What opens or shuts a gate entirely, in half precision too."""


@dataclass
class PaddedRows:
    """A batch.

    Attributes:
        rows: `(batch, length, channels)`.
        lengths: `(batch,)`, how many of each row are no padding.
    """

    rows: Any
    lengths: Any

    @property
    def is_padding(self) -> Any:
        """Which places are padding, `(batch, length)`."""
        return torch.arange(self.rows.shape[1], device=self.rows.device) >= self.lengths[:, None]

    @property
    def backward(self) -> Any:
        """The place that comes in each one's place if the tokens are read backward, `(batch, length)`."""
        places = torch.arange(self.rows.shape[1], device=self.rows.device)
        return torch.where(self.is_padding, places, self.lengths[:, None] - 1 - places)


def rows_of(x: Any, lengths: Any, batch_first: bool) -> PaddedRows:
    """Return the batch that a packed sequence would be made of."""
    lengths = torch.as_tensor(lengths, dtype=torch.int64).to(x.device)
    return PaddedRows(x if batch_first else x.transpose(0, 1), lengths)


def padded(batch: PaddedRows, batch_first: bool, padding_value: float, total_length: Any) -> tuple[Any, Any]:
    """Return `(batch, length, channels)`, as long as the longest row or as is asked for, and the lengths."""
    rows = batch.rows.masked_fill(batch.is_padding[..., None], padding_value)
    if total_length is None:
        longest = batch.lengths.max().item()
        torch._check(longest >= 1)
        torch._check(longest <= rows.shape[1])
        rows = rows[:, :longest]
    else:
        rows = torch.nn.functional.pad(rows, (0, 0, 0, total_length - rows.shape[1]), value=padding_value)
    return rows if batch_first else rows.transpose(0, 1), batch.lengths


def run_layers(module: Any, batch: PaddedRows, states: Any) -> tuple[PaddedRows, Any]:
    """Return what the layers of an `nn.RNN`, `nn.LSTM` or `nn.GRU` make of a batch, and their last states."""
    is_lstm, directions = module.mode == "LSTM", 2 if module.bidirectional else 1
    given = _states(module, batch.rows) if states is None else states if is_lstm else (states,)
    last: list[Any] = []
    for layer in range(module.num_layers):
        found = []
        for row in range(layer * directions, (layer + 1) * directions):
            own = tuple(item[row : row + 1] for item in given)
            y, end = _one_way(module, batch, own, module.all_weights[row], is_backward=row % directions == 1)
            found.append(y)
            last.append(end)
        rows = torch.cat(found, 2)
        if module.training and layer < module.num_layers - 1:
            rows = torch.dropout(rows, module.dropout, train=True)
        batch = PaddedRows(rows, batch.lengths)
    ends = [torch.cat(items) for items in zip(*last, strict=True)]
    return batch, tuple(ends) if is_lstm else ends[0]


def _states(module: Any, rows: Any) -> tuple[Any, ...]:
    count = module.num_layers * (2 if module.bidirectional else 1)
    sizes = (module.proj_size or module.hidden_size, module.hidden_size)
    states = [rows.new_zeros((count, rows.shape[0], size)) for size in sizes]
    return tuple(states if module.mode == "LSTM" else states[:1])


def _one_way(
    module: Any, batch: PaddedRows, states: tuple[Any, ...], weights: Any, *, is_backward: bool
) -> tuple[Any, tuple[Any, ...]]:
    """Return the result of one layer in one direction, `(batch, length, states)`, and its states at the last token."""
    places = batch.backward[..., None]
    x = batch.rows.gather(1, places.expand(batch.rows.shape)) if is_backward else batch.rows
    options = (module.bias, 1, 0.0, False, False, True)
    if module.mode == "LSTM":
        x = torch.cat([x, batch.is_padding[..., None].to(x.dtype)], 2)
        y, _, cell = _VF.lstm(x, states, [_that_waits(weights[0]), *weights[1:]], *options)
        more: tuple[Any, ...] = (cell,)
    else:
        y, _ = getattr(_VF, module.mode.lower())(x, states[0], weights, *options)
        more = ()
    end = y.gather(1, (batch.lengths - 1)[:, None, None].expand(-1, 1, y.shape[2])).transpose(0, 1)
    return y.gather(1, places.expand(y.shape)) if is_backward else y, (end, *more)


def _that_waits(weight: Any) -> Any:
    """Return the matrix of an input, `(4 * states, channels + 1)`, whose last channel keeps the cell as it is."""
    size = weight.shape[0] // 4
    gates = [weight.new_full((size, 1), value) for value in (-_ALWAYS, _ALWAYS, 0.0, 0.0)]
    return torch.cat([weight, torch.cat(gates)], 1)
