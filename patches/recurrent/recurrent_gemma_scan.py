"""RecurrentGemma goes through a text in a loop over its tokens, and begins each call of several tokens anew.

Symptom: `tracing inferred a static shape of 3 for dimension inputs['input_ids'].shape[1]`. In eager mode, several
tokens on a filled cache have other logits than in the whole text.
Cause: `for t in range(hidden_states.shape[1])` in `_rnn_scan`. A convolution over several tokens begins from zeros, and
over one token from what came before.
What is done: while it is traced, the convolution goes on from its state for any number of tokens, and the recurrence is
torch's `scan`. See `recurrent-gemma-states` for where the states are.
Can go: when upstream's graph holds for any number of tokens behind any state.
Source: Griffin, https://arxiv.org/abs/2402.19427, section 2.4.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec

from ._scan_inputs import apart

_MODULE = "transformers.models.recurrent_gemma.modeling_recurrent_gemma"


def patch_recurrence(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a block, or the recurrence in it, go on from its state while it is traced."""
    from exportcompat.patches.toolkit.wrapping import when_traced

    is_block = "input_states" in inspect.signature(original).parameters
    return when_traced(original, _block if is_block else _scanned)


def _block(
    self: Any, input_states: Any, position_ids: Any, attention_mask: Any, use_cache: bool = True, **kwargs: Any
) -> tuple[Any, None]:
    """Do what `RecurrentGemmaRecurrentBlock.forward` does, from the convolution's state for any number of tokens."""
    import torch

    from ._states import causal_convolution

    if not use_cache:
        self.conv1d_state = self.rg_lru.recurrent_states = None
    # Upstream's state has one input less than the kernel takes.
    before = None if self.conv1d_state is None else torch.nn.functional.pad(self.conv1d_state, (1, 0))
    gate, inputs = self.act_fn(self.linear_y(input_states)), self.linear_x(input_states).transpose(1, 2)
    outputs, state = causal_convolution(self.conv_1d, inputs, before)
    if use_cache:
        self.conv1d_state = state[..., 1:]
    return self.linear_out(self.rg_lru(outputs.transpose(1, 2), position_ids) * gate), None


def _scanned(
    self: Any, hidden_states: Any, recurrent_gate: Any, reset: Any, recurrent_states: Any, acc_dtype: Any = None
) -> tuple[Any, Any]:
    """Do what `RecurrentGemmaRglru._rnn_scan` does, for any number of tokens."""
    import torch
    from torch._higher_order_ops.scan import scan

    def step(state: Any, token: tuple[Any, Any]) -> tuple[Any, Any]:
        state = token[0] * state + token[1]
        return state, state.clone()

    dtype = acc_dtype or torch.float32
    tokens = tuple(apart(part.transpose(0, 1), dtype) for part in (recurrent_gate * ~reset, hidden_states))
    before = torch.zeros_like(tokens[1][0]) if recurrent_states is None else apart(recurrent_states, dtype)
    last, outputs = scan(step, before, tokens)
    return outputs.transpose(0, 1).to(hidden_states.dtype), last


SPECS = (
    PatchingSpec(
        id="recurrent-gemma-scan",
        targets=(f"{_MODULE}:RecurrentGemmaRecurrentBlock.forward", f"{_MODULE}:RecurrentGemmaRglru._rnn_scan"),
        replacement=f"{__name__}:patch_recurrence",
        requires=("transformers>=5.24", "torch>=2.9"),
        reason="RecurrentGemma loops over the sample's tokens, and begins each call of several tokens anew.",
        upstream=(source("models/recurrent_gemma/modeling_recurrent_gemma.py", "v5.24.0"),),
        proofs=("recurrent_gemma_export",),
        higher_order=("scan",),
        kind="wrap",
    ),
)
