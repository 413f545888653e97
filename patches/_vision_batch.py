"""Segments of patches as the rows of a batch, as wide as the longest: attention needs no mask of patches x patches."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ._vision_count import tower_memory
from ._vision_places import marks


@dataclass(frozen=True)
class Batch:
    """Where the patches of segments are in a batch with a row for each segment.

    Attributes:
        patch: the patch in each place, `(segments, longest)`, int64; any one behind the end of a segment.
        is_real: which places are no padding, `(segments, longest)`, bool; at least one of each row.
        place: the place of each patch, counted row by row, `(patches,)`, int64.
    """

    patch: Any
    is_real: Any
    place: Any

    def attend(
        self, product: Callable[..., Any], query: Any, key: Any, value: Any, _mask: Any = None, **kwargs: Any
    ) -> Any:
        """Attend within segments; a mask that would keep them apart is not used.

        Args:
            product: `scaled_dot_product_attention`.
            query: `(1, heads, patches, head_dim)`, or without the 1.
            key: likewise.
            value: likewise.
            kwargs: others of `product`.

        Returns:
            Like `query`.
        """
        kwargs.pop("attn_mask", None)
        rows = (item.flatten(0, -3).transpose(0, 1)[self.patch].transpose(1, 2) for item in (query, key, value))
        found = product(*rows, attn_mask=self.is_real[:, None, None], **kwargs)
        patches = found.transpose(1, 2).flatten(0, 1).index_select(0, self.place)
        return patches.transpose(0, 1).reshape(*query.shape[:-1], -1)


def batch_of(ends: Any, count: Any) -> Batch:
    """Return the batch of segments; the layers of a tower share it. See `side_by_side`."""
    made = tower_memory()
    if id(ends) not in made:
        # The ends are kept, too: as long as they are alive, their number is theirs.
        made[id(ends)] = ends, side_by_side(ends, count)
    batch: Batch = made[id(ends)][1]
    return batch


def side_by_side(ends: Any, count: Any) -> Batch:
    """Make a batch of segments; their number, and the longest, are data.

    There is one segment more than there are, and a place more in each if they have one: torch asks of sizes that are
    data whether they are 1, and is told that they are not.

    Args:
        ends: 0 and the ends of the segments, `(segments + 1,)`, integers; they may repeat.
        count: the number of patches, at least 1.
    """
    is_first = marks(ends, count)
    first = is_first.nonzero()[:, 0]
    torch._check(first.shape[0] >= 1)
    first = torch.cat([first, torch.zeros_like(first[:1])])
    own = is_first.cumsum(0) - 1
    lengths = torch.zeros_like(first).scatter_add(0, own, torch.ones_like(own)).clamp(min=1)
    # Not with `item`, which has another answer while the images of a model are traced.
    longest = torch.ops.aten._local_scalar_dense(lengths.max().clamp(min=2))
    torch._check(longest >= 2)
    along = torch.arange(longest, device=ends.device)
    patch = (first[:, None] + along).clamp(max=count - 1)
    place = own * longest + torch.arange(count, device=ends.device) - first[own]
    return Batch(patch, along < lengths[:, None], place)
