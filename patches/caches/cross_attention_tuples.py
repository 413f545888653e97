"""Cross-attention with tuples for a cache computes keys and values of all states, or of none.

Symptom: the decoder of BART, mBART, Marian, Pegasus, M2M-100 to 4.51, of T5 and its copies to 4.45, or of BERT and
TrOCR to 4.53, needs one graph for the first call and another for the later ones.
Cause: `past_key_value[0].shape[2] == key_value_states.shape[1]`, an if on two lengths that is a constant of a graph.
What is done: while it is traced, keys and values of the states are appended to those of the past, as an
`EncoderDecoderCache` does in later releases (`encoder-decoder-cache-pytree`). Upstream is then given states as long as
all keys, of which it reads nothing but the length. `exportcompat.TextDecoder` makes the tuples, and leaves out the
states that the past has.
Can go: with the releases; later ones have no tuples.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec, Unchanged

_PROJECTIONS = (("k_proj", "v_proj"), ("key_proj", "value_proj"), ("k", "v"), ("key", "value"))
_STATES = ("key_value_states", "encoder_hidden_states")


def patch_cross_attention(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Make `forward` of an attention append to the keys and values of a tuple while it is traced."""
    signature = inspect.signature(original)
    names = [name for name in _STATES if name in signature.parameters]
    if not names or "past_key_value" not in signature.parameters:
        return Unchanged("it takes no states of an encoder beside a tuple of its past")

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = signature.bind(self, *args, **kwargs)
        given = call.arguments
        if _is_traced_tuple(given.get("past_key_value"), given.get(names[0])):
            given["past_key_value"] = _appended(self, given["past_key_value"], given[names[0]])
            given[names[0]] = _with_length(given[names[0]], given["past_key_value"][0].shape[2])
        return original(*call.args, **call.kwargs)

    return forward


def _is_traced_tuple(past: Any, states: Any) -> bool:
    from exportcompat.patches.toolkit.tracing import is_traced

    return isinstance(past, tuple) and states is not None and is_traced(states)


def _appended(attention: Any, past: tuple[Any, Any], states: Any) -> tuple[Any, Any]:
    """Return keys and values, `(batch, heads, past + states, head_dim)` each."""
    import torch

    pair = next(pair for pair in _PROJECTIONS if hasattr(attention, pair[0]))
    made = [getattr(attention, name)(states).unflatten(-1, (-1, past[0].shape[3])).transpose(1, 2) for name in pair]
    return torch.cat([past[0], made[0]], dim=2), torch.cat([past[1], made[1]], dim=2)


def _with_length(states: Any, length: Any) -> Any:
    """Return zeros, `(batch, length, channels)`."""
    return states.new_zeros(1).expand(states.shape[0], length, states.shape[2])


_SOURCE = "https://github.com/huggingface/transformers/blob/{0}/src/transformers/models/{1}/modeling_{1}.py"


def _spec(releases: str, local: tuple[str, ...], source: str, *proofs: str) -> PatchingSpec:
    return PatchingSpec(
        id="cross-attention-tuples",
        # Nothing but its wording holds this code together: some twenty models have copies of it.
        targets=tuple(f"methods_using(transformers:{name})" for name in local),
        replacement=f"{__name__}:patch_cross_attention",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="Whether cross-attention is in a cache of tuples is an if on two lengths: two graphs for one decoder.",
        upstream=(source,),
        proofs=proofs,
        kind="wrap",
    )


_BART, _T5 = ("is_cross_attention",), ("real_seq_length",)
_PROOFS = ("bart_decoder", "marian_decoder")
SPECS = (
    _spec(">=4.44,<4.46", (*_BART, *_T5), _SOURCE.format("v4.45.2", "t5"), *_PROOFS, "t5_decoder"),
    _spec(">=4.46,<4.52", _BART, _SOURCE.format("v4.51.3", "bart"), *_PROOFS),
    # BART and its kin have an `EncoderDecoderCache` from 4.52 on; BERT and its kin, and TrOCR, from 4.54 on.
    _spec(">=4.52,<4.54", _BART, _SOURCE.format("v4.53.3", "bert"), "joined_bert", "joined_trocr"),
)
