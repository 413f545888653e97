"""Pairs of tokens of a chunk, for the gated delta rule: their products, and the inverse of what they overwrite.

What a token writes depends on what those before it have written: a triangular system. Its inverse is put together from
the inverses of its halves, which divide by nothing but ones. A product of powers of the matrix is the same in exact
numbers, but powers grow like binomial coefficients where keys are alike, and float32 does not hold what is left.
Source: Gated Delta Networks, https://arxiv.org/abs/2412.06464, section 3.3.
"""

from collections.abc import Sequence
from typing import Any


def l2_normalized(part: Any) -> Any:
    """Return vectors along the last axis, made as long as 1, as upstream's `l2norm` does."""
    import torch

    return part * torch.rsqrt(part.pow(2).sum(-1, keepdim=True) + 1e-6)


def behind(size: int, device: Any) -> Any:
    """Return whether token s is behind token t, `(t, s)`, for `decays_between`."""
    import torch

    places = torch.arange(size, device=device)
    return places[:, None] < places


def decays_between(sums: Any, is_behind: Any) -> Any:
    """Return how much of what token s wrote is left at token t, `(..., t, s, size)`; 0 where s is behind t.

    Args:
        sums: logarithms of the decays from the first token of the chunk on, `(..., chunk, size)`; float64.
        is_behind: whether s is behind t, `(chunk, chunk)`. What would grow may be infinite, and is not computed.
    """
    import torch

    ages = sums[..., :, None, :] - sums[..., None, :, :]
    return ages.masked_fill(is_behind[..., None], -torch.inf).float().exp()


def decayed_products(left: Any, right: Any, decays: Any) -> Any:
    """Return the products of tokens, `(..., chunk, key size)`, that are decayed between them; see `decays_between`."""
    if decays.shape[-1] == 1:
        return left @ right.transpose(-1, -2) * decays[..., 0]
    return (left[..., :, None, :] * right[..., None, :, :] * decays).sum(-1)


def halves(size: int, device: Any) -> list[Any]:
    """Return masks for `unit_inverse`, `(size, size)`: where blocks of 1, 2, 4, ... rows follow each other in pairs."""
    import torch

    places = torch.arange(size, device=device)
    blocks = [places >> step for step in range(size.bit_length() - 1)]
    return [(block[:, None] % 2 == 1) & (block[:, None] - 1 == block) for block in blocks]


def unit_inverse(lower: Any, joined: Sequence[Any]) -> Any:
    """Return the inverse of the unit matrix plus `lower`, of which only what is below its diagonal is taken.

    Args:
        lower: `(..., chunk, chunk)`.
        joined: the masks of `halves`, `(chunk, chunk)` each.
    """
    import torch

    first, *others = (lower * mask for mask in joined)
    inverse = torch.eye(lower.shape[-1], device=lower.device) - first
    for part in others:
        inverse = inverse - inverse @ part @ inverse
    return inverse
