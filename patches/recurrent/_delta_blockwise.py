"""The gated delta rule in blocks of tokens, without a loop and without `scan`, for a torch that cannot lower it.

A block takes the state `S` to `P S + Q` (see `_delta_block`), and these are joined by `_parallel_scan`. Time grows with
the tokens, and so does memory, by a matrix of key size x key size for each block and head.
"""

from typing import Any

from ._delta_block import Block, block_masks

BLOCK = 32
"""Tokens in a block."""


def chunkwise_delta_rule(query: Any, key: Any, value: Any, beta: Any, decay: Any, state: Any) -> tuple[Any, Any]:
    """Return what `_delta_scan.scan_delta_rule` returns, of the same arguments."""
    import torch

    from ._parallel_scan import parallel_scan

    decay = decay if decay.ndim == query.ndim else decay[..., None]
    # A cache that writes into the state it was given cannot be exported if what is written needs a gradient.
    parts = (part.detach().float() for part in (query * query.shape[-1] ** -0.5, key, value, beta[..., None]))
    tokens, blocked = query.shape[1], tuple(_blocked(part) for part in (*parts, decay.detach().double()))
    blocks = Block.of(blocked, block_masks(BLOCK, query.device))
    if state is None:
        state = value.new_zeros(value.shape[0], value.shape[2], key.shape[-1], value.shape[-1])
    first, kept, entered = state.float(), *blocks.step()
    states = parallel_scan(kept, entered, first, torch.matmul)
    _, outputs = blocks.run(torch.cat([first[None], states[:-1]]))
    # Axes: blocks, batch, heads, tokens of a block, value size.
    return outputs.permute(1, 0, 3, 2, 4).flatten(1, 2)[:, :tokens], states[-1].to(state.dtype)


def _blocked(part: Any) -> Any:
    """Return `(batch, tokens, heads, size)` as blocks; zeros behind the last token change nothing."""
    import torch

    # One block more than is needed: torch takes an axis that is 1 in the sample for 1.
    count = (part.shape[1] + BLOCK - 1) // BLOCK + 1
    whole = torch.nn.functional.pad(part, (0, 0, 0, 0, 0, count * BLOCK - part.shape[1]))
    return whole.unflatten(1, (count, BLOCK)).permute(1, 0, 3, 2, 4)
