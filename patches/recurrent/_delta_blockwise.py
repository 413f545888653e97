"""The gated delta rule in blocks of tokens, without a loop and without `scan`, for a torch that cannot lower it.

A block is a chunk, see `_token_pairs`. It takes the state `S` to `P S + Q`, and these are joined by `_parallel_scan`.
Time grows with the tokens, and so does memory, by a matrix of key size x key size for each block and head.
Source: Gated Delta Networks, https://arxiv.org/abs/2412.06464, section 3.3.
"""

from dataclasses import dataclass
from typing import Any

BLOCK = 32
"""Tokens in a block."""


def chunkwise_delta_rule(query: Any, key: Any, value: Any, beta: Any, decay: Any, state: Any) -> tuple[Any, Any]:
    """Return what `_delta_chunks.scan_delta_rule` returns, of the same arguments."""
    import torch

    from ._parallel_scan import parallel_scan

    decay = decay if decay.ndim == query.ndim else decay[..., None]
    # A cache that writes into the state it was given cannot be exported if what is written needs a gradient.
    parts = (part.detach() for part in (query * query.shape[-1] ** -0.5, key, value, beta[..., None], decay))
    tokens, blocks = query.shape[1], _Blocks.of(*parts)
    if state is None:
        state = value.new_zeros(value.shape[0], value.shape[2], key.shape[-1], value.shape[-1])
    first, kept, entered = state.float(), *blocks.steps()
    states = parallel_scan(kept, entered, first, torch.matmul)
    outputs = blocks.outputs(torch.cat([first[None], states[:-1]]))
    # Axes: blocks, batch, heads, tokens of a block, value size.
    return outputs.permute(1, 0, 3, 2, 4).flatten(1, 2)[:, :tokens], states[-1].to(state.dtype)


@dataclass
class _Blocks:
    """Tokens in blocks: every tensor has the axes blocks, batch, heads, tokens of a block, and one of its own.

    Attributes:
        query: scaled, of key size.
        key: of key size.
        written: what tokens write if the state is 0, of value size.
        read: what tokens take of the state before they write, of key size.
        sums: logarithms of the decays from the first token of the block on, of key size or 1; float64.
    """

    query: Any
    key: Any
    written: Any
    read: Any
    sums: Any

    @classmethod
    def of(cls, query: Any, key: Any, value: Any, beta: Any, decay: Any) -> "_Blocks":
        """Make blocks of `(batch, tokens, heads, size)` each."""
        import torch

        from ._token_pairs import behind, decayed_products, decays_between, halves, unit_inverse

        query, key, value, beta = (_blocked(part.float()) for part in (query, key, value, beta))
        sums = torch.cumsum(_blocked(decay.double()), -2)
        decays = decays_between(sums, behind(BLOCK, sums.device))
        inverse = unit_inverse(beta * decayed_products(key, key, decays), halves(BLOCK, sums.device))
        read = beta * key * torch.exp(sums).float()
        return cls(query, key, inverse @ (beta * value), inverse @ read, sums)

    def steps(self) -> tuple[Any, Any]:
        """Return `P`, key size x key size, and `Q`, key size x value size, of each block and head."""
        import torch

        last = self.sums[..., -1:, :]
        leaving = (self.key * torch.exp(last - self.sums).float()).transpose(-1, -2)
        unit = torch.eye(self.key.shape[-1], device=self.key.device)
        return unit * torch.exp(last).float() - leaving @ self.read, leaving @ self.written

    def outputs(self, states: Any) -> Any:
        """Return the outputs, of value size, for the states before each block."""
        import torch

        from ._token_pairs import behind, decayed_products, decays_between

        changes = self.written - self.read @ states
        decays = decays_between(self.sums, behind(BLOCK, self.sums.device))
        attended = decayed_products(self.query, self.key, decays) @ changes
        return (self.query * torch.exp(self.sums).float()) @ states + attended


def _blocked(part: Any) -> Any:
    """Return `(batch, tokens, heads, size)` as blocks; zeros behind the last token change nothing."""
    import torch

    # One block more than is needed: torch takes an axis that is 1 in the sample for 1.
    count = (part.shape[1] + BLOCK - 1) // BLOCK + 1
    whole = torch.nn.functional.pad(part, (0, 0, 0, 0, 0, count * BLOCK - part.shape[1]))
    return whole.unflatten(1, (count, BLOCK)).permute(1, 0, 3, 2, 4)
