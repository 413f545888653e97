"""Recurrent layers of `torch.nn` make a number of the length of a text.

Symptom: `nn.RNN`, and `nn.LSTM` or `nn.GRU` with `bias=False`, with states that are given, in both directions, of
several layers or without `batch_first`: `tracing inferred a static shape of 5 for dimension inputs['x'].shape[1]`. With
`torch.export` every such layer.
Cause: the captured program has one operator for the layer. To find the shape of its result, torch runs it step by step
over the length of the sample, or in a loop that it cannot trace for these.
What is done: where only shapes are asked for, they are computed from the shapes that the layer is given. Where the
operator itself is taken apart, torch does it as before.
Can go: when torch has functions for the shapes of `lstm.input`, `gru.input`, `rnn_tanh.input` and `rnn_relu.input`.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_RANK = 3
"""Of a padded batch; a packed one, whose sizes are data, has two axes."""


def patch_rnn_helper(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the function that runs the layers answer by shapes alone where nothing is recorded."""

    def _rnn_helper(
        input: Any,  # noqa: A002 (as torch names it)
        hidden: Any,
        params: Any,
        has_biases: Any,
        num_layers: Any,
        dropout: Any,
        train: Any,
        bidirectional: Any,
        batch_first: Any,
        layer_fn: Any,
    ) -> Any:
        if _has_shape_alone(input):
            return _shapes(input, hidden, 2 if bidirectional else 1, batch_first)
        return original(
            input, hidden, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, layer_fn
        )

    return _rnn_helper


def _has_shape_alone(input: Any) -> bool:  # noqa: A002
    """Say whether a batch has no numbers, and what is done with it is not recorded."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return isinstance(input, FakeTensor) and input.dim() == _RANK and get_proxy_mode() is None


def _shapes(input: Any, hidden: Any, directions: int, batch_first: bool) -> Any:  # noqa: A002
    """Return the result, `(length, batch, states)` in memory, and the last states of each layer and direction."""
    first = hidden[0][0] if isinstance(hidden[0], tuple) else hidden[0]
    length, batch = input.shape[int(batch_first)], input.shape[int(not batch_first)]
    output = input.new_empty((length, batch, directions * first.shape[-1]))
    last = [_like(states) for states in hidden]
    return output.transpose(0, 1) if batch_first else output, last


def _like(states: Any) -> Any:
    return tuple(map(_like, states)) if isinstance(states, tuple) else states.new_empty(states.shape)


SPECS = (
    PatchingSpec(
        id="torch-export-recurrent-layers",
        targets=("torch._decomp.decompositions:_rnn_helper", "torch.export._patches:_rnn_helper"),
        replacement=f"{__name__}:patch_rnn_helper",
        requires=("torch>=2.11",),
        reason="The shape of a recurrent layer is found step by step over the sample's length, which is fixed then.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_decomp/decompositions.py",),
        proofs=("recurring_gpt",),
        kind="wrap",
    ),
)
