"""Attention without a softmax whose past decays: what Mamba2 and lightning attention are, in chunks of tokens.

Each head has one decay for a token. In a chunk what token s leaves in token t is a matrix of tokens x tokens, and what
is left of all chunks before is the state. Decays are differences of sums, never negative powers, and the sums are in
double precision.
Source: Mamba2, https://arxiv.org/abs/2405.21060, section 6; Lightning Attention-2, https://arxiv.org/abs/2401.04658,
section 3.
"""

from typing import Any

CHUNK = 64
"""Tokens in a chunk."""


def decayed_attention(query: Any, key: Any, value: Any, decay: Any, state: Any) -> tuple[Any, Any]:
    """Return `(batch, tokens, groups, heads, value size)` and the last state, float32.

    Args:
        query: `(batch, tokens, groups, 1 or heads, key size)`; heads are those of a group.
        key: likewise.
        value: `(batch, tokens, groups, heads, value size)`.
        decay: logarithms of what a token leaves of the state, `(batch, tokens, groups, heads)`, at most 0.
        state: `(batch, groups, heads, value size, key size)`.
    """
    import torch

    from ._chunked_scan import chunk_length, scan_chunks

    chunk = chunk_length(query.shape[1], CHUNK)
    places = torch.arange(CHUNK, device=query.device)
    is_later = (places[:, None] >= places)[:chunk, :chunk]

    def step(state: Any, part: tuple[Any, ...]) -> tuple[Any, Any]:
        query, key, value, decay = part
        sums = torch.cumsum(decay, -2)
        # What would grow, because s is behind t, may be infinite, and is not taken.
        kept = torch.where(is_later, (sums - sums.transpose(-1, -2)).float().exp(), 0.0)
        outputs = (query @ key.transpose(-1, -2) * kept) @ value
        outputs = outputs + (query @ state.transpose(-1, -2)) * sums.float().exp()
        last = sums[..., -1:, :]
        left = value * (last - sums).float().exp()
        return state * last.float().exp() + left.transpose(-1, -2) @ key, outputs

    parts = (query.float(), key.float(), value.float(), decay.double()[..., None])
    return scan_chunks(step, state.float(), parts, CHUNK)
