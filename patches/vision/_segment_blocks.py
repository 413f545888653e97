"""Attention within segments by blocks of queries: memory grows with the patches, and not with their square."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ._patch_coordinates import marks
from ._tower_context import encoder_memory

_MOST = 256
"""The queries in a block. Each copies the keys of its segment: with fewer that costs more, with more the scores do."""


@dataclass(frozen=True)
class Blocks:
    """Which patches attend together; no block has patches of two segments.

    Attributes:
        first: the first patch of each block, `(blocks,)`, int64.
        begin: the first patch of the segment of each block, likewise.
        length: the number of patches of that segment, likewise.
        size: the rows that a block has; those behind the end of a segment are not picked.
        place: the row of each patch, counted block by block, `(patches,)`, int64.
    """

    first: Any
    begin: Any
    length: Any
    size: Any
    place: Any

    def attend(
        self, product: Callable[..., Any], query: Any, key: Any, value: Any, _mask: Any = None, **kwargs: Any
    ) -> Any:
        """Attend within segments, block by block in a `scan`; a mask that would keep segments apart is not used.

        Args:
            product: `scaled_dot_product_attention`.
            query: `(1, heads, patches, head_dim)`, or without the 1.
            key: likewise; with `enable_gqa` it may have fewer heads.
            value: like `key`.
            kwargs: others of `product`.

        Returns:
            Like `query`.
        """
        from torch._higher_order_ops.scan import scan_op

        kwargs.pop("attn_mask", None)
        parts = [item.detach().flatten(0, -3) for item in (query, key, value)]
        along = torch.arange(self.size, device=query.device)

        def step(nothing: Any, first: Any, begin: Any, length: Any, along: Any, *parts: Any) -> list[Any]:
            rows = (first + along).clamp(max=parts[0].shape[1] - 1)
            count = length.item()
            torch._check(count >= 1)
            own = begin + torch.arange(count, device=first.device)
            taken = [part.index_select(1, places)[None] for part, places in zip(parts, (rows, own, own), strict=True)]
            return [nothing.clone(), product(*taken, **kwargs)[0].transpose(0, 1).contiguous()]

        where = [self.first, self.begin, self.length]
        _, found = scan_op(step, [parts[0].new_zeros(1)], where, (along, *parts))
        return found.flatten(0, 1).index_select(0, self.place).transpose(0, 1).reshape(*query.shape[:-1], -1)


def blocks_of(ends: Any, count: Any) -> Blocks:
    """Return the blocks of segments; the layers of a tower share them. See `in_blocks`."""
    made = encoder_memory()
    if id(ends) not in made:
        # The ends are kept, too: as long as they are alive, their number is theirs.
        made[id(ends)] = ends, in_blocks(ends, count)
    blocks: Blocks = made[id(ends)][1]
    return blocks


def in_blocks(ends: Any, count: Any) -> Blocks:
    """Divide segments into blocks that are as large as each other, at most 256, in the longest segment.

    Args:
        ends: 0 and the ends of the segments, `(segments + 1,)`, integers; they may repeat.
        count: the number of patches, at least 1.
    """
    is_first = marks(ends, count)
    begins = is_first.nonzero()[:, 0]
    own = is_first.cumsum(0) - 1
    lengths = torch.zeros_like(begins).scatter_add(0, own, torch.ones_like(own))
    longest = lengths.max().clamp(min=2)
    parts = (longest + _MOST - 1) // _MOST
    rows = (longest + parts - 1) // parts
    offset = torch.arange(count, device=ends.device) - begins[own]
    is_block = offset % rows == 0
    first = is_block.nonzero()[:, 0]
    torch._check(first.shape[0] >= 1)
    # Not with `item`, which has another answer while the images of a model are traced.
    size = torch.ops.aten._local_scalar_dense(rows)
    torch._check(size >= 2)
    place = (is_block.cumsum(0) - 1) * size + offset % rows
    segment = own[first]
    return Blocks(first, begins[segment], lengths[segment], size, place)
