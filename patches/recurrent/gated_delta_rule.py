"""A layer with the gated delta rule has chunks of 64 tokens, as many as the sample, and to 5.8 forgets its state.

Symptom: Qwen3-Next, Qwen3.5, OLMo-hybrid, Lara: the file is wrong, or stops, beyond 64 tokens; the export takes
minutes. To 5.8 several tokens behind a past begin from nothing.
Cause: loops of Python over the chunks and over the rows of one; `if ... seq_len == 1`, with `initial_state=None` in the
other branch.
What is done: while it is traced, a layer continues from its states for any number of tokens; zeros are an empty cache.
The convolution has its state to the left of its inputs. The rule goes by chunks of 32 tokens through torch's `scan`
(see `_delta_chunks`), and before torch 2.9, which cannot put that into ONNX, in blocks of tokens (see
`_delta_blockwise`).
Can go: when upstream's chunks are no loop in Python.
"""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from exportcompat.registry import PatchingSpec

_APART = ("conv_states_q", "conv_states_k", "conv_states_v")
"""Where the cache of OLMo-hybrid has the states of its three convolutions to 5.14."""


def patch_gated_delta_net(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of a gated delta net continue from its states while it is traced."""
    from ._delta_chunks import scan_delta_rule

    return _patch_mixer(original, scan_delta_rule)


def patch_gated_delta_net_without_scan(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same for a torch that cannot put `scan` into ONNX."""
    from ._delta_blockwise import chunkwise_delta_rule

    return _patch_mixer(original, chunkwise_delta_rule)


def _patch_mixer(original: Callable[..., Any], ruled: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    from ._states import causal_convolution, traced_mixer, without_padding

    def traced(self: Any, hidden: Any, cache: Any, mask: Any) -> Any:
        hidden = without_padding(hidden, mask)
        conv_state, state = _states(cache, self.layer_idx)
        inputs, gate, enter, time = _projected(self, hidden)
        outputs, conv_state = causal_convolution(_convolution(self), inputs.transpose(1, 2), conv_state)
        query, key, value = _heads(self, _activated(self, outputs).transpose(1, 2))
        beta = enter.sigmoid() * (2 if getattr(self, "allow_neg_eigval", False) else 1)
        outputs, state = ruled(query, key, value, beta, _decay(self, time), state)
        _keep(cache, self, conv_state, state)
        norm, project = (self.o_norm, self.o_proj) if hasattr(self, "o_norm") else (self.norm, self.out_proj)
        outputs = norm(outputs.to(hidden.dtype), gate.reshape(outputs.shape))
        return project(outputs.flatten(2))

    return traced_mixer(original, traced)


def _convolution(mixer: Any) -> Any:
    """Return the convolution of query, key and value; OLMo-hybrid has three of them to 5.14."""
    import torch

    if hasattr(mixer, "conv1d"):
        return mixer.conv1d
    parts = [getattr(mixer, f"{name}_conv1d") for name in "qkv"]
    return SimpleNamespace(weight=torch.cat([part.weight for part in parts]), bias=None)


def _states(cache: Any, index: int) -> tuple[Any, Any]:
    """Return the convolution's and the recurrent state; the caches of these models to 5.4 have names of their own."""
    import torch

    from ._states import read_states

    if not hasattr(cache, "recurrent_states"):
        return read_states(cache, index)
    if hasattr(cache, "conv_states"):
        return cache.conv_states[index], cache.recurrent_states[index]
    parts = [getattr(cache, name)[index] for name in _APART]
    # These hold one input less than the kernel is wide.
    conv = None if parts[0] is None else torch.nn.functional.pad(torch.cat(parts, 1), (1, 0))
    return conv, cache.recurrent_states[index]


def _keep(cache: Any, mixer: Any, conv: Any, recurrent: Any) -> None:
    from ._states import store_states

    if not hasattr(cache, "recurrent_states"):
        store_states(cache, mixer.layer_idx, conv, recurrent)
        return
    cache.recurrent_states[mixer.layer_idx] = recurrent
    if hasattr(cache, "conv_states"):
        cache.conv_states[mixer.layer_idx] = conv
        return
    parts = conv[..., 1:].split([mixer.key_dim, mixer.key_dim, mixer.value_dim], 1)
    for name, part in zip(_APART, parts, strict=True):
        getattr(cache, name)[mixer.layer_idx] = part


def _activated(mixer: Any, outputs: Any) -> Any:
    import torch
    from transformers.activations import ACT2FN

    # Where a layer holds its kernels, the code without them takes SiLU, whatever the configuration says.
    is_fixed = hasattr(mixer, "causal_conv1d_fn") or not hasattr(mixer, "activation")
    return torch.nn.functional.silu(outputs) if is_fixed else ACT2FN[mixer.activation](outputs)


def _projected(mixer: Any, hidden: Any) -> Iterator[Any]:
    """Yield `(batch, tokens, channels)` of the convolution, the gate, and by value head what enters and the time."""
    import torch

    if hasattr(mixer, "in_proj_qkvz"):
        *parts, gate, enter, time = mixer.fix_query_key_value_ordering(
            mixer.in_proj_qkvz(hidden), mixer.in_proj_ba(hidden)
        )
        yield from (torch.cat([part.flatten(2) for part in parts], -1), gate, enter, time)
    elif hasattr(mixer, "in_proj_qkv"):
        yield from (getattr(mixer, f"in_proj_{name}")(hidden) for name in ("qkv", "z", "b", "a"))
    else:
        yield torch.cat([getattr(mixer, f"{name}_proj")(hidden) for name in "qkv"], -1)
        yield from (getattr(mixer, f"{name}_proj")(hidden) for name in "gba")


def _decay(mixer: Any, time: Any) -> Any:
    import torch

    return -mixer.A_log.float().exp() * torch.nn.functional.softplus(time.float() + mixer.dt_bias)


def _heads(mixer: Any, inputs: Any) -> Iterator[Any]:
    """Yield query, key and value, `(batch, tokens, value heads, size)` each."""
    from ._token_pairs import l2_normalized

    repeats = mixer.num_v_heads // mixer.num_k_heads
    query, key, value = inputs.split([mixer.key_dim, mixer.key_dim, mixer.value_dim], dim=-1)
    for part in (query, key):
        yield l2_normalized(
            part.unflatten(-1, (mixer.num_k_heads, mixer.head_k_dim)).repeat_interleave(repeats, 2).float()
        )
    yield value.unflatten(-1, (mixer.num_v_heads, mixer.head_v_dim))


_MODELS = {
    "qwen3_next": "Qwen3Next",
    "qwen3_5": "Qwen3_5",
    "qwen3_5_moe": "Qwen3_5Moe",
    "olmo_hybrid": "OlmoHybrid",
    "qwen4_exp": "Qwen4ExpText",
    "lara_mini": "LaraMini",
}


_WAYS = {
    "torch>=2.9": ("patch_gated_delta_net", ("scan",)),
    "torch>=2.6,<2.9": ("patch_gated_delta_net_without_scan", ()),
}


def _specs(releases: str, models: tuple[str, ...], proof: str) -> Iterator[PatchingSpec]:
    for torch, (replacement, operators) in _WAYS.items():
        yield PatchingSpec(
            id="gated-delta-rule",
            targets=tuple(
                f"transformers.models.{name}.modeling_{name}:{_MODELS[name]}GatedDeltaNet.forward" for name in models
            ),
            replacement=f"{__name__}:{replacement}",
            requires=(f"transformers{releases}", torch),
            reason="A gated delta net has as many chunks as the sample, and to 5.8 forgets its state: wrong beyond 64.",
            upstream=(
                "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/qwen3_next/modeling_qwen3_next.py",
            ),
            proofs=(proof,),
            defect=(r"chunk_gated_delta_rule\(",),
            higher_order=operators,
            kind="wrap",
        )


_ALL = tuple(_MODELS)

# A spec with a target that does not exist is not applied at all.
# Without the spec an export takes minutes, so one case stands for all; the lock file has what was proved with each.
SPECS = (
    *_specs(">=4.57,<5.2", _ALL[:1], "qwen3_next"),
    *_specs(">=5.2,<5.3", _ALL[:3], "qwen3_5_text"),
    *_specs(">=5.3,<5.16", _ALL[:4], "olmo_hybrid"),
    *_specs(">=5.16,<5.24", _ALL[:5], "olmo_hybrid"),
    *_specs(">=5.24", _ALL, "olmo_hybrid"),
)
