"""The gated delta rule in one block of tokens, as products of matrices.

In a block, what the tokens write is the solution of a triangular system, whose inverse is put together from blocks of
1, 2, 4, ... rows; powers of the matrix would overflow where keys are alike.
Source: Gated Delta Networks, https://arxiv.org/abs/2412.06464, section 3.3; with a decay for each channel, Kimi Linear,
https://arxiv.org/abs/2510.26692, section 3.
"""

from dataclasses import dataclass
from typing import Any


def block_masks(size: int, device: Any) -> tuple[Any, ...]:
    """Return `(size, size)` bools: which tokens come before or at the same place, and which pairs each step joins.

    Args:
        size: the tokens of a block, a power of 2.
        device: where they are.
    """
    import torch

    places = torch.arange(size, device=device)
    halves = [places >> step for step in range(size.bit_length() - 1)]
    joined = ((half[:, None] % 2 == 1) & (half[:, None] - 1 == half) for half in halves)
    return places[:, None] >= places, *joined


@dataclass
class Block:
    """Tokens of a block: every tensor has any axes first, then tokens, and one of its own.

    Attributes:
        query: decayed since the block began, of key size.
        attended: share of each token in each one that is not before it, of as many as there are tokens.
        written: what tokens write if the state is 0, of value size.
        read: what tokens take of the state before they write, of key size.
        leaving: keys, as much as is left of them behind the block, of key size.
        kept: what is left of a state behind the block, one token, of key size or 1.
    """

    query: Any
    attended: Any
    written: Any
    read: Any
    leaving: Any
    kept: Any

    @classmethod
    def of(cls, parts: tuple[Any, ...], masks: tuple[Any, ...]) -> "Block":
        """Make a block.

        Args:
            parts: query and key of key size, value, beta of 1, float32, and logarithms of decays of key size or 1,
                float64. Zeros are padding.
            masks: see `block_masks`; those of as many tokens as there are.
        """
        import torch

        query, key, value, beta, decay = parts
        sums = torch.cumsum(decay, -2)
        by_query, by_key = _pairs(query, key, sums, masks[0])
        inverse = _inverse((beta * by_key).tril(-1), masks[1:])
        decayed, last = torch.exp(sums.float()), sums[..., -1:, :]
        return cls(
            query * decayed,
            by_query,
            inverse @ (beta * value),
            inverse @ (beta * key * decayed),
            key * torch.exp((last - sums).float()),
            torch.exp(last.float()),
        )

    def step(self) -> tuple[Any, Any]:
        """Return `P`, key size x key size, and `Q`, key size x value size: the block takes a state `S` to `P S + Q`."""
        import torch

        unit = torch.eye(self.leaving.shape[-1], device=self.leaving.device)
        leaving = self.leaving.transpose(-1, -2)
        return unit * self.kept - leaving @ self.read, leaving @ self.written

    def run(self, state: Any) -> tuple[Any, Any]:
        """Return the state behind the block, and the outputs, of value size.

        Args:
            state: before the block, key size x value size.
        """
        changes = self.written - self.read @ state
        outputs = self.query @ state + self.attended @ changes
        return state * self.kept.transpose(-1, -2) + self.leaving.transpose(-1, -2) @ changes, outputs


def _pairs(query: Any, key: Any, sums: Any, is_later: Any) -> tuple[Any, Any]:
    """Return the products of each query, and of each key, with each key not behind it, decayed between them; else 0."""
    import torch

    if sums.shape[-1] == 1:
        # What would grow, because a token is behind the other, may be infinite, and is not taken.
        kept = torch.where(is_later, torch.exp((sums - sums.transpose(-1, -2)).float()), 0.0)
        across = key.transpose(-1, -2)
        return query @ across * kept, key @ across * kept
    kept = torch.where(is_later[..., None], torch.exp((sums[..., :, None, :] - sums[..., None, :, :]).float()), 0.0)
    found = (kept * key[..., None, :, :]) @ torch.stack([query, key], -1)
    return found[..., 0], found[..., 1]


def _inverse(lower: Any, joined: tuple[Any, ...]) -> Any:
    """Return the inverse of the unit matrix plus `lower`, which has zeros on and above its diagonal."""
    import torch

    inverse = torch.eye(lower.shape[-1], device=lower.device) - lower * joined[0]
    for pairs in joined[1:]:
        inverse = inverse - inverse @ (lower * pairs) @ inverse
    return inverse
