"""The vision tower of GLM-4V, which hands places of patches from method to method, without loops while it is traced."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ._grid_methods import in_graph
from ._patch_coordinates import find_places
from ._segment_attention import masked
from ._tower_context import patch_count


def from_sizes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the `forward` of a tower, its embeddings or its attention, `rot_pos_emb`, or what makes a mask.

    Each is made to use no loop.
    """
    parameters = inspect.signature(original).parameters
    if original.__name__ == "rot_pos_emb":
        return _positions(original)
    if "grid_thw" in parameters:
        return _tower(original)
    return _embeddings(original) if "lengths" in parameters else masked(original)


def _positions(original: Callable[..., Any]) -> Callable[..., Any]:
    angles = in_graph(original)

    def rot_pos_emb(self: Any, grid_thw: Any) -> Any:
        count = patch_count()
        if count is None:
            return original(self, grid_thw)
        places = find_places(grid_thw, count, self.spatial_merge_size)
        return angles(self, grid_thw), torch.stack([places.row, places.column], -1)

    return rot_pos_emb


def _tower(original: Callable[..., Any]) -> Callable[..., Any]:
    inner = in_graph(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _Unlisted():
            return inner(self, *args, **kwargs)

    return forward


def _embeddings(original: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, embeddings: Any, lengths: Any, image_shapes: Any, h_coords: Any, w_coords: Any) -> Any:
        if (count := patch_count()) is not None:
            # As one image, whose height and width are those of the image of each patch.
            image_shapes = image_shapes[find_places(image_shapes, count).image].T[None]
            lengths = (1,)
        return original(self, embeddings, lengths, image_shapes, h_coords, w_coords)

    return forward


class _Unlisted(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
    """Answer that a list of lengths, which a tower makes for its embeddings, is empty: those have another source."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # A fake tensor makes a list of its parts.
        is_list = func in (torch.Tensor.tolist, torch.Tensor.unbind) and patch_count() is not None
        # Attention, within `segment-attention`, has a list of one length.
        if is_list and args[0].dim() == 1 and isinstance(args[0].shape[0], torch.SymInt):
            return []
        return func(*args, **(kwargs or {}))
