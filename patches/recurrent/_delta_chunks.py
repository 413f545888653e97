"""The gated delta rule in chunks of a fixed number of tokens, in torch's `scan`, which becomes ONNX' `Scan`.

A chunk is products of matrices, see `_token_pairs`; what is left of those before it is the state. Torch lowers `scan`
since 2.9. Decays are differences of sums, never negative powers, and the sums are in double precision.
Source: Gated Delta Networks, https://arxiv.org/abs/2412.06464, section 3.3; with a decay for each channel, Kimi Linear,
https://arxiv.org/abs/2510.26692.
"""

from typing import Any

CHUNK = 32
"""Tokens in a chunk."""

CHUNK_BY_CHANNEL = 8
"""The same where each channel of the keys decays by itself: each pair of tokens is a product over all channels."""


def scan_delta_rule(query: Any, key: Any, value: Any, beta: Any, decay: Any, state: Any) -> tuple[Any, Any]:
    """Return `(batch, tokens, heads, value size)`, float32, and the last state of the rule that begins from `state`.

    Each token decays the state, reads it at the key, and writes back what the value differs by, times beta.

    Args:
        query: `(batch, tokens, heads, key size)`, of length 1; it is scaled here.
        key: the same shape.
        value: `(batch, tokens, heads, value size)`.
        beta: `(batch, tokens, heads)`.
        decay: logarithms of what a token leaves of the state, at most 0; `(batch, tokens, heads)`, or with `key size`
            as fourth axis.
        state: `(batch, heads, key size, value size)`; None for zeros.
    """
    from ._chunked_scan import chunk_length, scan_chunks
    from ._token_pairs import behind, halves

    most = CHUNK_BY_CHANNEL if decay.ndim == query.ndim else CHUNK
    decay = decay if decay.ndim == query.ndim else decay[..., None]
    if state is None:
        state = value.new_zeros(value.shape[0], value.shape[2], key.shape[-1], value.shape[-1])
    chunk, masks = chunk_length(query.shape[1], most), (behind(most, query.device), *halves(most, query.device))
    is_behind, *joined = (mask[:chunk, :chunk] for mask in masks)
    query, key, value, beta = (part.float() for part in (query * query.shape[-1] ** -0.5, key, value, beta[..., None]))
    parts = (query, key, value, beta, decay.double())
    outputs, last = scan_chunks(lambda state, part: _step(state, part, is_behind, joined), state.float(), parts, most)
    return outputs, last.to(state.dtype)


def _step(state: Any, part: tuple[Any, ...], is_behind: Any, joined: list[Any]) -> tuple[Any, Any]:
    """Return the state behind a chunk, `(batch, heads, key size, value size)`, and what its tokens read."""
    import torch

    from ._token_pairs import decayed_products, decays_between, unit_inverse

    query, key, value, beta, decay = part
    sums = torch.cumsum(decay, -2)
    decays, since_begin = decays_between(sums, is_behind), sums.float().exp()
    inverse = unit_inverse(decayed_products(key, key, decays) * beta, joined)
    written = inverse @ (beta * (value - (key * since_begin) @ state))
    outputs = (query * since_begin) @ state + decayed_products(query, key, decays) @ written
    last = sums[..., -1:, :]
    left = (key * (last - sums).float().exp()).transpose(-1, -2) @ written
    return state * last.float().exp().transpose(-1, -2) + left, outputs
