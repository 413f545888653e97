"""Segments of patches as the rows of a batch, as wide as the longest: attention needs no mask of patches x patches."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ._patch_coordinates import find_segments


@dataclass(frozen=True)
class Batch:
    """Where the patches of segments are in a batch with a row for each segment.

    Attributes:
        patch: the patch in each place, `(segments, longest)`, int64; any one behind the end of a segment.
        is_real: which places are no padding, `(segments, longest)`, bool.
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
            key: likewise; with `enable_gqa` it may have fewer heads.
            value: like `key`.
            kwargs: others of `product`.

        Returns:
            Like `query`.
        """
        kwargs.pop("attn_mask", None)
        heads = query.shape[-3]
        if kwargs.pop("enable_gqa", False):
            # How many rows share a head of the keys cannot be told of sizes that are data.
            key, value = (item.repeat_interleave(heads // item.shape[-3], -3) for item in (key, value))
        # ONNX Runtime's `Attention` (opset 23) wants a row for each query.
        mask = self.is_real[:, None].expand(-1, heads, -1).flatten(0, 1)[None, :, None]
        mask = mask.expand(-1, -1, self.patch.shape[1], -1)
        found = product(*map(self._rows, (query, key, value)), attn_mask=mask, **kwargs)
        places = found[0].unflatten(0, (-1, heads)).transpose(1, 2).flatten(0, 1)
        return places.index_select(0, self.place).transpose(0, 1).reshape(*query.shape[:-1], -1)

    def _rows(self, item: Any) -> Any:
        """Return `(1, segments * heads, longest, head_dim)`.

        Torch to 2.8 asks whether the number of segments, which is data, is 1; this product is not.
        """
        return item.flatten(0, -3).transpose(0, 1)[self.patch].transpose(1, 2).flatten(0, 1)[None]


def side_by_side(ends: Any, count: Any) -> Batch:
    """Make a batch of segments; their number, and the longest, are data.

    A segment has two places at least: torch asks of sizes that are data whether they are 1.

    Args:
        ends: 0 and the ends of the segments, `(segments + 1,)`, integers; they may repeat.
        count: the number of patches, at least 1.
    """
    found = find_segments(ends, count)
    # Not with `item`, which has another answer while the images of a model are traced.
    longest = torch.ops.aten._local_scalar_dense(found.length.max().clamp(min=2))
    torch._check(longest >= 2)
    along = torch.arange(longest, device=ends.device)
    patch = (found.first[:, None] + along).clamp(max=count - 1)
    place = found.own * longest + torch.arange(count, device=ends.device) - found.first[found.own]
    return Batch(patch, along < found.length[:, None], place)
