"""Lightning attention goes through a prompt in blocks and through later tokens one by one, in loops of Python.

Symptom: a graph is right for as many tokens as the sample has, and either for a prompt or for what comes behind it.
Cause: `for i in range(num_blocks)` if the cache has no state, `for i in range(seq_len)` if it has one; the mask is
applied to a prompt alone, to 5.14.
What is done: while it is traced, blocks of 64 tokens go through torch's `scan` and begin from the state; zeros are an
empty cache; see `_decayed_attention`. Before torch 2.9, which cannot put that into ONNX, and in a TorchScript graph all
tokens of a call are one block, which takes memory that grows with their square. Padding is masked in every call.
Can go: when upstream's graph holds for any number of tokens behind any state.
Source: Lightning Attention-2, https://arxiv.org/abs/2401.04658, section 3.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_lightning_attention(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of lightning attention continue from its state while it is traced."""
    from ._chunked_scan import unless_scripted

    return _patch_attention(original, unless_scripted(_by_blocks, _one_block))


def patch_lightning_attention_without_scan(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same for a torch that cannot put `scan` into ONNX."""
    return _patch_attention(original, _one_block)


def _patch_attention(original: Callable[..., Any], attend: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    import torch

    from exportcompat.patches.toolkit.cache_names import cache_of
    from exportcompat.patches.toolkit.tracing import is_traced

    from ._states import without_padding

    signature = inspect.signature(original)

    def forward(self: Any, hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_traced(hidden_states):
            return original(self, hidden_states, *args, **kwargs)
        given = signature.bind(self, hidden_states, *args, **kwargs).arguments
        cache = cache_of(given)
        projected = without_padding(self.act_fn(self.qkv_proj(hidden_states)), given.get("attention_mask"))
        parts = projected.unflatten(-1, (self.num_attention_heads, -1)).transpose(1, 2).chunk(3, dim=-1)
        outputs, state = attend(parts, self.slope_rate, _state(cache, self.layer_idx))
        outputs = self.norm(outputs.transpose(1, 2).flatten(2)) * torch.sigmoid(self.output_gate(hidden_states))
        if cache is not None:
            cache.set_linear_cache(self.layer_idx, state)
        return self.out_proj(outputs), state

    return forward


def _state(cache: Any, index: int) -> Any:
    """Return the state of a layer; None if it has none, for which a cache has None or an empty list."""
    state = None if cache is None else cache.get_linear_cache(index)
    return None if isinstance(state, list) else state


def _one_block(parts: Any, slope: Any, state: Any) -> tuple[Any, Any]:
    """Return `(batch, heads, tokens, head_dim)` and the next state, in the type of the values.

    Args:
        parts: queries, keys and values, `(batch, heads, tokens, head_dim)` each.
        slope: what is left after n tokens is exp(-slope * n), `(heads, 1, 1)`.
        state: `(batch, heads, head_dim, head_dim)`; None for zeros.
    """
    import torch

    dtype, slope = parts[0].dtype, slope.float()
    query, key, value = (part.float() for part in parts)
    places = torch.arange(query.shape[-2], device=query.device)[:, None]
    outputs = (query @ key.transpose(-1, -2) * _decays(slope, places)) @ value
    # What the last token leaves stays as it is, and that of those before it has decayed.
    last = (key * torch.exp(-slope * places.flip(0))).transpose(-1, -2) @ value
    if state is not None:
        outputs = outputs + query * torch.exp(-slope * (places + 1)) @ state.float()
        last = last + torch.exp(-slope * (places[-1:] + 1)) * state.float()
    return outputs.to(dtype), last.to(dtype)


def _by_blocks(parts: Any, slope: Any, state: Any) -> tuple[Any, Any]:
    """Return what `_one_block` returns, of the same arguments."""
    from ._decayed_attention import decayed_attention

    # Each head is a group, and a state has the values before the keys.
    query, key, value = (part.transpose(1, 2)[..., None, :] for part in parts)
    decay = (-slope.float()).flatten()[:, None].expand(value.shape[:-1])
    sizes = value.shape[0], *value.shape[2:], key.shape[-1]
    before = value.new_zeros(sizes) if state is None else state.transpose(-1, -2)[:, :, None]
    outputs, last = decayed_attention(query, key, value, decay, before)
    return outputs[..., 0, :].transpose(1, 2).to(value.dtype), last[:, :, 0].transpose(-1, -2).to(value.dtype)


def _decays(slope: Any, places: Any) -> Any:
    """Return how much of what entered at token s is left at token t, `(heads, t, s)`; never a negative power."""
    import torch

    ages = places - places.transpose(0, 1)
    return torch.exp((-slope * ages).masked_fill(ages < 0, -torch.inf))


_WAYS = {
    "torch>=2.9": ("patch_lightning_attention", ("scan",)),
    "torch>=2.6,<2.9": ("patch_lightning_attention_without_scan", ()),
}
"""The replacement, and the higher-order operators of its graph, by torch."""

SPECS = tuple(
    PatchingSpec(
        id="lightning-attention",
        targets=("transformers.models.minimax.modeling_minimax:MiniMaxLightningAttention.forward",),
        replacement=f"{__name__}:{replacement}",
        requires=("transformers>=4.53", torch),
        reason="Lightning attention loops over the blocks or tokens of the sample: no graph, or one for that length.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/minimax/modeling_minimax.py",
        ),
        proofs=("minimax",),
        defect=(r"for i in range\(num_blocks\)", r"for i in range\(seq_len\)"),
        higher_order=operators,
        kind="wrap",
    )
    for torch, (replacement, operators) in _WAYS.items()
)
