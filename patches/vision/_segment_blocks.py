"""Attention within segments by blocks of queries: memory grows with the patches, and not with their square.

Each block attends to its own segment alone, so a large image beside small ones costs what it costs by itself, and no
mask is needed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ._patch_coordinates import find_segments

_MOST = 256
"""The queries of a block. Each block copies the keys of its segment: more blocks cost time, and larger ones memory."""


@dataclass(frozen=True)
class Blocks:
    """Where the patches of segments are in blocks; no block has patches of two segments.

    Attributes:
        first: the first patch of each block, `(blocks,)`, int64.
        begin: the first patch of its segment, `(blocks,)`, int64.
        length: the number of patches of its segment, `(blocks,)`, int64.
        size: how many rows a block has; those behind the end of a segment are of any patch.
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
        """Attend within segments, block by block in a `scan`; a mask that would keep them apart is not used.

        Args:
            product: `scaled_dot_product_attention`.
            query: `(1, heads, patches, head_dim)`, or without the 1.
            key: likewise; with `enable_gqa` it may have fewer heads.
            value: like `key`.
            kwargs: others of `product`.

        Returns:
            Like `query`.
        """
        # The function `scan` has its body read by Dynamo, which asks whether the number of blocks, which is data, is 0.
        from torch._higher_order_ops.scan import scan_op

        kwargs.pop("attn_mask", None)
        # Torch refuses a scan whose inputs are views of one tensor, or need a gradient.
        parts = [item.detach().flatten(0, -3).clone() for item in (query, key, value)]
        along = torch.arange(self.size, device=query.device)

        def step(nothing: Any, first: Any, begin: Any, length: Any, along: Any, *parts: Any) -> list[Any]:
            places = _rows(first, begin, length, along)
            taken = (part.index_select(1, rows)[None] for part, rows in zip(parts, places, strict=True))
            return [nothing.clone(), product(*taken, **kwargs)[0].transpose(0, 1).contiguous()]

        blocks = [self.first, self.begin, self.length]
        _, found = scan_op(step, [parts[0].new_zeros(1)], blocks, (along, *parts))
        return found.flatten(0, 1).index_select(0, self.place).transpose(0, 1).reshape(*query.shape[:-1], -1)


def _rows(first: Any, begin: Any, length: Any, along: Any) -> tuple[Any, Any, Any]:
    """Return the patches that are the queries, keys and values of a block; queries are kept within the segment."""
    count = length.item()
    torch._check(count >= 1)
    own = begin + torch.arange(count, device=begin.device)
    return torch.minimum(first + along, begin + length - 1), own, own


def in_blocks(ends: Any, count: Any) -> Blocks:
    """Divide segments into blocks; those of the longest segment are as large as each other, as far as it can be.

    Segments of one length are filled by their blocks, so that next to nothing is computed in vain. A block has two rows
    at least: torch asks of sizes that are data whether they are 1.

    Args:
        ends: 0 and the ends of the segments, `(segments + 1,)`, integers; they may repeat.
        count: the number of patches, at least 1.
    """
    found = find_segments(ends, count)
    longest = found.length.max().clamp(min=2)
    parts = (longest + _MOST - 1) // _MOST
    rows = (longest + parts - 1) // parts
    inside = torch.arange(count, device=ends.device) - found.first[found.own]
    is_first = inside % rows == 0
    first = is_first.nonzero()[:, 0]
    torch._check(first.shape[0] >= 1)
    # Not with `item`, which has another answer while the images of a model are traced.
    size = torch.ops.aten._local_scalar_dense(rows)
    torch._check(size >= 2)
    own = found.own[first]
    return Blocks(first, found.first[own], found.length[own], size, (is_first.cumsum(0) - 1) * size + inside % rows)
