"""xLSTM goes through a text in chunks and then token by token, as many of both as the sample has.

Symptom: `tracing inferred a static shape of 3 for dimension inputs['input_ids'].shape[1]`.
Cause: `for t in range(sequence_length)` in `mlstm_recurrent_sequence_native`, and `for key in range(0, num_chunks)` for
what fills chunks of 64. Texts of more than `max_inference_chunksize` tokens go through the layers in parts of that
size; without a cache the states between them are bfloat16.
What is done: while it is traced in the mode `inference`, upstream's step for one token is the body of torch's `scan`. A
text goes through the layers as one, which takes the memory for all of it.
Can go: when upstream's graph holds for any number of tokens.
Source: xLSTM, https://arxiv.org/abs/2405.04517, section 2.3.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec

from ._scan_inputs import apart

_MODULE = "transformers.models.xlstm.modeling_xlstm"
_LIMIT = "max_inference_chunksize"


class _Unlimited:
    """A limit that is less than no size."""

    def __lt__(self, other: Any) -> bool:
        return False


def patch_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of a model, or of what computes its layers, take a text as one while it is traced."""
    return _of_backend(original) if "query" in inspect.signature(original).parameters else _of_model(original)


def _of_backend(original: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    from exportcompat.patches.toolkit.tracing import is_traced

    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        if not is_traced(given["query"]) or "inference" not in (given.get("mode") or self.config.mode):
            return original(self, *args, **kwargs)
        parts = [given[name] for name in ("query", "key", "value", "igate", "fgate")]
        states = [given.get(name) for name in ("c_initial", "n_initial", "m_initial")]
        options = {"eps": self.config.eps, "dtype_state": getattr(torch, self.config.inference_state_dtype)}
        return _scanned(self.step_kernel_fn, parts, states, options)

    return forward


def _scanned(step: Callable[..., Any], parts: Any, states: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return `(batch, heads, tokens, v_dim)` and the last states.

    Args:
        step: upstream's step for one token.
        parts: queries, keys and values, `(batch, heads, tokens, dim)`, then gates of input and of forgetting,
            `(batch, heads, tokens)`.
        states: cells, normalizers and exponents; None for zeros.
        options: of the step.
    """
    from torch._higher_order_ops.scan import scan

    def body(states: Any, token: Any) -> tuple[Any, Any]:
        query, key, value, enter, forget = token
        gates = {"igate": enter[..., None], "fgate": forget[..., None]}
        old = dict(zip(("cstate", "nstate", "mstate"), states, strict=True))
        outputs, states = step(query=query, key=key, value=value, **gates, **old, **options)
        return states, outputs

    tokens = tuple(apart(part.movedim(2, 0)) for part in parts)
    last, outputs = scan(body, _begun(states, tokens, options["dtype_state"]), tokens)
    return outputs.movedim(0, 2), tuple(last)


def _begun(states: Any, tokens: Any, dtype: Any) -> tuple[Any, ...]:
    """Return the states to begin from, in the type of states."""
    _, key, value, *_ = tokens
    sizes = (*key.shape[1:], value.shape[-1]), key.shape[1:], (*key.shape[1:3], 1)
    made = (key.new_zeros(size) if state is None else state for state, size in zip(states, sizes, strict=True))
    return tuple(apart(state, dtype) for state in made)


def _of_model(original: Callable[..., Any]) -> Callable[..., Any]:
    from exportcompat.patches.toolkit.wrapping import when_traced

    def traced(self: Any, *args: Any, **kwargs: Any) -> Any:
        # The configuration checks what is set by name.
        names = vars(self.config)
        before = names[_LIMIT]
        names[_LIMIT] = _Unlimited()
        try:
            return original(self, *args, **kwargs)
        finally:
            names[_LIMIT] = before

    return when_traced(original, traced)


SPECS = (
    PatchingSpec(
        id="xlstm-scan",
        targets=(
            f"{_MODULE}:xLSTMBackend.forward",
            f"{_MODULE}:xLSTMModel.forward",
            f"{_MODULE}:xLSTMForCausalLM.forward",
        ),
        replacement=f"{__name__}:patch_forward",
        requires=("transformers>=4.54", "torch>=2.9"),
        reason="xLSTM loops over the chunks, tokens and parts of the sample: a graph for one length.",
        upstream=(source("models/xlstm/modeling_xlstm.py", "v5.24.0"),),
        proofs=("xlstm_export",),
        higher_order=("scan",),
        kind="wrap",
    ),
)
