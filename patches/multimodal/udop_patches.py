"""UDOP goes through the images of a batch one by one to find the patches that no word lies on.

Symptom: `not enough values to unpack (expected 2, got 1)`, in `combine_image_text_embeddings`.
Cause: `rows, cols = zip(*ind)` takes a tensor apart row by row, and the patches of each image that are left are as many
as its words leave, which is data: they are picked by a mask, filled up with zeros, and stacked.
What is done: while it is traced, each patch that is left is written to its place, behind those before it, for all
images at once; what is behind the last one stays zero.
Can go: when upstream computes the places.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_combine_image_text_embeddings(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `combine_image_text_embeddings` pick patches without a loop while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    signature = inspect.signature(original)

    def combine_image_text_embeddings(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        if not is_traced(given.arguments["image_embeddings"]):
            return original(*args, **kwargs)
        return _combined(inspect.getmodule(original), **given.arguments)

    return combine_image_text_embeddings


def _combined(
    module: Any,
    image_embeddings: Any,
    inputs_embeds: Any,
    bbox: Any,
    visual_bbox: Any,
    attention_mask: Any,
    num_patches: int,
    max_len: int,
    image_size: int,
    patch_size: int,
) -> tuple[Any, Any, Any]:
    """Return embeddings, boxes and mask of the words, and behind them those of the patches that no word lies on.

    Args:
        module: upstream's.
        image_embeddings: `(batch, patches, channels)`.
        inputs_embeds: of the words, `(batch, words, channels)`.
        bbox: the corners of the words, `(batch, words, 4)`, from 0 to 1.
        visual_bbox: those of the patches, `(batch, patches, 4)`, or None.
        attention_mask: `(batch, words)`, or None.
        num_patches: patches along a side.
        max_len: words and patches together; 0 for room for all patches.
        image_size: pixels along a side.
        patch_size: pixels along a side of a patch.
    """
    import torch

    points = _patches_of_words(bbox, num_patches)
    bbox = bbox.to(torch.float64)
    middle = bbox.mean(-1)
    has_patch = (middle != 0.0) & (middle != 1.0)
    seen = image_embeddings.gather(1, points.unsqueeze(-1).expand(-1, -1, image_embeddings.shape[2]))
    inputs_embeds = inputs_embeds + torch.where(has_patch.unsqueeze(-1), seen, 0.0)
    room = max_len - inputs_embeds.shape[1] if max_len else image_embeddings.shape[1]
    if visual_bbox is None:
        visual_bbox = module.get_visual_bbox(image_size=image_size, patch_size=patch_size).to(bbox.device)
        visual_bbox = visual_bbox.expand(image_embeddings.shape[0], -1, -1)
    is_left = torch.ones_like(image_embeddings[:, :, 0], dtype=torch.bool).scatter(1, points, False)
    packed = (image_embeddings, visual_bbox, is_left.unsqueeze(-1))
    left, boxes, ones = (_packed(item, is_left, room) for item in packed)
    if attention_mask is not None:
        attention_mask = torch.cat([attention_mask, ones.squeeze(-1).to(attention_mask.dtype)], 1)
    return torch.cat([inputs_embeds, left], 1), torch.cat([bbox, boxes.to(bbox.dtype)], 1), attention_mask


def _patches_of_words(bbox: Any, side: int) -> Any:
    """Return the patch that the middle of each word lies on, `(batch, words)`, int64, row by row."""
    import torch

    columns, rows = (
        torch.floor((bbox[..., first] + bbox[..., first + 2]) / 2.0 * side).long().clamp(0, side - 1)
        for first in (0, 1)
    )
    return columns + rows * side


def _packed(rows: Any, is_chosen: Any, room: Any) -> Any:
    """Return the chosen rows of each image, `(batch, patches, channels)`, in front; zeros follow.

    Args:
        rows: `(batch, patches, channels)`.
        is_chosen: `(batch, patches)`, bool.
        room: how many rows are returned.
    """
    import torch

    count = rows.shape[1]
    places = torch.where(is_chosen, is_chosen.to(torch.int64).cumsum(1) - 1, count)
    start = torch.zeros_like(torch.cat([rows, rows[:, :1]], 1))
    found = start.scatter(1, places.unsqueeze(-1).expand(-1, -1, rows.shape[2]), rows)
    return found[:, :count][:, :room]


SPECS = (
    PatchingSpec(
        id="udop-patches",
        targets=("transformers.models.udop.modeling_udop:combine_image_text_embeddings",),
        replacement=f"{__name__}:patch_combine_image_text_embeddings",
        requires=("transformers>=4.44",),
        reason="UDOP takes tensors apart to find patches that no word lies on: no graph of a document with an image.",
        upstream=(source("models/udop/modeling_udop.py", "v5.24.0"),),
        proofs=("udop",),
        kind="wrap",
    ),
)
