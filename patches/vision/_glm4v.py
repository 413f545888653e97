"""The vision tower of GLM-4V, which hands places of patches from method to method, without loops while it is traced."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from exportcompat.patches.toolkit.wrapping import changed
from exportcompat.registry import Unchanged

from ._grid_methods import patch_grid_method
from ._patch_coordinates import find_patch_coordinates
from ._segment_attention import patch_segment_attention_without_scan
from ._tower_context import patch_count


def patch_glm4v_vision(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Compute `forward` of GLM-4V's vision encoder, embeddings or attention, or another method, from sizes.

    Each is made to use no loop.
    """
    parameters = inspect.signature(original).parameters
    if original.__name__ == "rot_pos_emb":
        return _positions(original)
    if "grid_thw" in parameters:
        return _vision_encoder(original)
    return _embeddings(original) if "lengths" in parameters else patch_segment_attention_without_scan(original)


def _positions(original: Callable[..., Any]) -> Callable[..., Any]:
    angles = changed(patch_grid_method, original)

    def rot_pos_emb(self: Any, grid_thw: Any) -> Any:
        count = patch_count()
        if count is None:
            return original(self, grid_thw)
        places = find_patch_coordinates(grid_thw, count, self.spatial_merge_size)
        return angles(self, grid_thw), torch.stack([places.row, places.column], -1)

    return rot_pos_emb


def _vision_encoder(original: Callable[..., Any]) -> Callable[..., Any]:
    inner = changed(patch_grid_method, original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _Unlisted():
            return inner(self, *args, **kwargs)

    return forward


def _embeddings(original: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, embeddings: Any, lengths: Any, image_shapes: Any, h_coords: Any, w_coords: Any) -> Any:
        if (count := patch_count()) is not None:
            # As one image, whose height and width are those of the image of each patch.
            image_shapes = image_shapes[find_patch_coordinates(image_shapes, count).image].T[None]
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
