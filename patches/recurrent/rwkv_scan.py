"""RWKV goes through a text in a loop over its tokens, and mixes the texts of a batch where it goes on by one token.

Symptom: `tracing inferred a static shape of 3 for dimension inputs['input_ids'].shape[1]`. In eager mode, a token
behind a filled state has other logits in a batch of several texts than alone.
Cause: `for current_index in range(seq_length)` in `rwkv_linear_attention_cpu`. For one token, `state[1][:, :, layer]`,
`(batch, channels)`, is broadcast against `(batch, 1, channels)`: a text is mixed with the last tokens of all others.
What is done: while it is traced, the tokens go through torch's `scan`. A state of zeros is an empty one, as that of
another model is. The last token of the call before stands in front of this call's, whatever their number is, in eager
mode too: a graph is compared with that. Weights that upstream divides in place, at the first call in evaluation mode,
are divided in the graph of a model that has not been called.
Can go: when upstream's graph holds for any number of tokens, and no text of a batch depends on another.
Source: RWKV, https://arxiv.org/abs/2305.13048, appendix D.
"""

import functools
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec

from ._scan_inputs import apart

_MODULE = "transformers.models.rwkv.modeling_rwkv"
_NOTHING = -1e38
"""The exponent of a sum without tokens, as upstream has it."""


def patch_recurrence(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function or method of RWKV go on from its state, for any number of tokens and texts."""
    return _FACTORIES[original.__qualname__](original)


def _stateless(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward` of the model, which leaves the modules of a trace as they were."""
    from exportcompat.patches.toolkit.module_state import preserved
    from exportcompat.patches.toolkit.wrapping import when_traced

    def traced(self: Any, *args: Any, **kwargs: Any) -> Any:
        with preserved(self):
            return original(self, *args, **kwargs)

    return when_traced(original, traced)


def _divided(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `_rescale_layers`, which divides the weights in the graph while it is traced, and not in place."""
    from exportcompat.patches.toolkit.tracing import is_traced

    def method(self: Any) -> None:
        if not is_traced(self.embeddings.weight):
            original(self)
            return
        every, sign = self.config.rescale_every, 1 if self.training else -1
        for number, block in enumerate(self.blocks if every > 0 else ()):
            for layer in (block.attention.output, block.feed_forward.value):
                # An attribute of the instance hides the parameter, which stays as it is.
                vars(layer)["weight"] = layer.weight * 2.0 ** (sign * (number // every))
        self.layers_are_rescaled = not self.training

    return method


def _shifted(kind: int, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that puts the last token in front of the only one of a call; upstream does so for several.

    Args:
        kind: which of the states has the last token.
        original: the method.
    """
    import torch

    from exportcompat.patches.toolkit.tracing import is_traced

    def method(self: Any, hidden: Any, state: Any = None) -> Any:
        # No trace has a single token, and the graph of several is right for one.
        if state is None or is_traced(hidden) or hidden.shape[1] != 1:
            return original(self, hidden, state=state)
        before = state[kind][:, None, :, self.layer_id]
        *parts, state = original(self, torch.cat([before, hidden], 1), state=state)
        return *(part[:, 1:] for part in parts), state

    return method


def _scanned(original: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    from exportcompat.patches.toolkit.wrapping import when_traced

    def traced(
        time_decay: Any, time_first: Any, key: Any, value: Any, state: Any = None, return_state: bool = False
    ) -> tuple[Any, Any]:
        from torch._higher_order_ops.scan import scan

        # Parameters need a gradient; see `apart`.
        decay, first = -torch.exp(time_decay.detach()), time_first.detach()

        def step(sums: Any, token: Any) -> tuple[Any, Any]:
            numerator, denominator, _ = _added(sums, sums[2], token[0] + first, token[1])
            return _added(sums, sums[2] + decay, *token), numerator / denominator

        tokens = tuple(apart(part.transpose(0, 1), torch.float32) for part in (key, value))
        sums, outputs = scan(step, _begun(state, tokens[0][0]), tokens)
        is_kept = return_state or state is not None
        return outputs.transpose(0, 1).to(key.dtype), [*sums] if is_kept else None

    return when_traced(original, traced)


def _added(sums: Any, exponent: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """Return numerator and denominator with a token more, and the power of e that both lack.

    Args:
        sums: numerator and denominator before, `(batch, channels)` each.
        exponent: the power of e that these lack.
        key: the exponent of the token's weight.
        value: what is weighted.
    """
    import torch

    largest = torch.maximum(exponent, key)
    before, now = torch.exp(exponent - largest), torch.exp(key - largest)
    return before * sums[0] + now * value, before * sums[1] + now, largest


def _begun(state: Any, like: Any) -> tuple[Any, Any, Any]:
    """Return numerator, denominator and exponent to begin from; where no token has been, the last is the least."""
    import torch

    if state is None:
        return torch.zeros_like(like), torch.zeros_like(like), torch.full_like(like, _NOTHING)
    numerator, denominator, exponent = (apart(part, torch.float32) for part in state)
    return numerator, denominator, torch.where(denominator == 0, _NOTHING, exponent)


_FACTORIES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "rwkv_linear_attention_cpu": _scanned,
    "RwkvSelfAttention.extract_key_value": functools.partial(_shifted, 1),
    "RwkvFeedForward.forward": functools.partial(_shifted, 0),
    "RwkvModel.forward": _stateless,
    "RwkvModel._rescale_layers": _divided,
}

SPECS = (
    PatchingSpec(
        id="rwkv-scan",
        targets=tuple(f"{_MODULE}:{name}" for name in _FACTORIES),
        replacement=f"{__name__}:patch_recurrence",
        requires=("transformers>=4.44", "torch>=2.9"),
        reason="RWKV loops over the sample's tokens, and mixes the texts of a batch where it goes on by one token.",
        upstream=(source("models/rwkv/modeling_rwkv.py", "v5.24.0"),),
        proofs=("rwkv_export",),
        higher_order=("scan",),
        kind="wrap",
    ),
)
