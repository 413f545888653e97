"""The gated delta rule in blocks of tokens, which go through torch's `scan`: see `_delta_block` and `_chunked_scan`."""

from typing import Any

BLOCK = 32
"""Tokens in a block where a head has one decay for a token."""

CHANNEL_BLOCK = 16
"""The same where each channel has its own, which takes tokens x tokens x channels numbers for a block."""


def scan_delta_rule(query: Any, key: Any, value: Any, beta: Any, decay: Any, state: Any) -> tuple[Any, Any]:
    """Return `(batch, tokens, heads, value size)`, float32, and the last state of the rule that begins from `state`.

    Each token decays the state, reads it at the key, and writes back what the value differs by, times beta.

    Args:
        query: `(batch, tokens, heads, key size)`, of length 1; it is scaled here.
        key: the same shape.
        value: `(batch, tokens, heads, value size)`.
        beta: `(batch, tokens, heads)`.
        decay: logarithms of factors from 0 to 1, `(batch, tokens, heads)`, or with `key size` as fourth axis.
        state: `(batch, heads, key size, value size)`; None for zeros.
    """
    from ._chunked_scan import chunk_length, scan_chunks
    from ._delta_block import Block, block_masks

    size = CHANNEL_BLOCK if decay.ndim == query.ndim else BLOCK
    decay = decay if decay.ndim == query.ndim else decay[..., None]
    if state is None:
        state = value.new_zeros(value.shape[0], value.shape[2], key.shape[-1], value.shape[-1]).float()
    length = chunk_length(query.shape[1], size)
    masks = tuple(mask[:length, :length] for mask in block_masks(size, query.device))

    def step(state: Any, parts: tuple[Any, ...]) -> tuple[Any, Any]:
        return Block.of(parts, masks).run(state)

    wide = (part.float() for part in (query * query.shape[-1] ** -0.5, key, value, beta[..., None]))
    outputs, last = scan_chunks(step, state.float(), (*wide, decay.double()), size)
    return outputs, last.to(state.dtype)


def l2_normalized(part: Any) -> Any:
    """Return vectors along the last axis, made as long as 1, as upstream's `l2norm` does."""
    import torch

    return part * torch.rsqrt(part.pow(2).sum(-1, keepdim=True) + 1e-6)
