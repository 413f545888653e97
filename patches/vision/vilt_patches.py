"""ViLT picks the patches of an image that are no padding in a loop over images.

Symptom: `Could not guard on data-dependent expression u0 > 1`, from `interpolate` to a size that the mask says.
Cause: `visual_embed` resizes positions and chooses patches in loops, of as many images as were traced. It takes the
patches that are no padding in a random order, then random ones of the padding up to the count of the largest image.
What is done: while it is traced, positions are interpolated for all images at once, with weights that follow from their
sizes. The patches that are no padding come first, in their own order, then the padding. Attention asks for no order
and sees no padding, so scores, pooled states and states of texts are those of eager; `last_hidden_state`, and
`hidden_states` and `attentions` on request, have their rows of patches in an order that eager draws anew each time.
Where eager draws which patches it leaves out, nothing is equal to it, and the call fails in ONNX Runtime with an index
out of range: more patches than `max_image_length` of the configuration, if that is not negative, or more than height
times width where a mask is no rectangle at the upper left. So does an image of padding alone, which eager refuses.
Can go: when upstream chooses patches without loops.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import PatchingSpec


def patch_visual_embed(original: Callable[..., Any]) -> Callable[..., Any]:
    """Embed the patches of all images at once while they are traced."""

    def traced(self: Any, pixel_values: Any, pixel_mask: Any, max_image_length: Any = 200) -> Any:
        import torch

        states = self.patch_embeddings(pixel_values)
        images, _, rows, columns = states.shape
        mask = _patch_mask(pixel_mask, rows, columns)
        heights, widths = mask[:, :, 0].sum(1), mask[:, 0].sum(1)
        order = _order(mask.flatten(1), heights * widths, max_image_length)
        image = torch.arange(images, device=order.device)[:, None]
        positions = _positions(self, heights, widths, rows, columns)
        first = self.cls_token + self.position_embeddings[:, :1]
        found = (states.permute(0, 2, 3, 1) + positions).flatten(1, 2)[image, order]
        embedded = self.dropout(torch.cat([first.expand(images, -1, -1), found], 1))
        chosen = mask.flatten(1)[image, order]
        chosen = torch.cat([torch.ones_like(mask[:, 0, :1]), chosen], 1)
        return embedded, chosen, (torch.stack([order // columns, order % columns], -1), (rows, columns))

    return when_traced(original, traced)


def _patch_mask(mask: Any, rows: Any, columns: Any) -> Any:
    """Return which patches are no padding, `(images, rows, columns)`, int64: what the nearest pixel says of each."""
    down, along = (
        _nearest(count, size, mask.device) for count, size in zip((rows, columns), mask.shape[1:], strict=True)
    )
    return mask[:, down][:, :, along].float().long()


def _nearest(count: Any, size: Any, device: Any) -> Any:
    """Return the pixel that `interpolate` takes for each of `count` patches, `(count,)`."""
    import torch

    pixels, patches = (torch.full((), length, dtype=torch.float32, device=device) for length in (size, count))
    return (torch.arange(count, device=device) * (pixels / patches)).floor().long().clamp(max=size - 1)


def _order(mask: Any, areas: Any, most: Any) -> Any:
    """Return the patches of each image that are no padding, then others, as many as of the largest, `(images, chosen)`.

    Args:
        mask: `(images, patches)`, 1 for a patch that is no padding.
        areas: height times width of each image in patches, `(images,)`.
        most: patches that are chosen at most; no limit if it is negative.
    """
    import torch

    has_limit = isinstance(most, int) and most >= 0
    longest = areas.max().clamp(max=most) if has_limit else areas.max()
    counts = mask.sum(1, keepdim=True)
    places = torch.where(mask > 0, mask.cumsum(1) - 1, counts + (1 - mask).cumsum(1) - 1)
    patches = torch.arange(mask.shape[1], device=mask.device)
    # Looking up an index that is not there is an error of ONNX Runtime too.
    is_known = (areas.min() > 0) & (counts.max() <= longest)
    checked = torch.zeros_like(patches[:1])[torch.where(is_known, 0, 1)[None]]
    chosen = (patches < longest + checked).nonzero().squeeze(1)
    torch._check(chosen.shape[0] >= 1)
    return torch.zeros_like(mask).scatter(1, places, patches.expand_as(mask))[:, chosen]


def _positions(embeddings: Any, heights: Any, widths: Any, rows: Any, columns: Any) -> Any:
    """Return the learnt positions, resized to the size of each image, `(images, rows, columns, channels)`; 0 outside.

    Args:
        embeddings: the module that has them.
        heights: of each image in patches, `(images,)`.
        widths: likewise.
        rows: that there is room for.
        columns: likewise.
    """
    import torch

    side = embeddings.config.image_size // embeddings.config.patch_size
    learnt = embeddings.position_embeddings[0, 1:].unflatten(0, (side, side))
    down, along = _weights(heights, rows, side), _weights(widths, columns, side)
    return torch.einsum("irs,ict,stk->irck", down, along, learnt.float()).to(learnt.dtype)


def _weights(sizes: Any, count: Any, side: int) -> Any:
    """Return what each of `count` places takes of `side` points, spread over a size, `(images, count, side)`."""
    import torch

    index = torch.arange(count, device=sizes.device)
    point = index * (side - 1) / (sizes[:, None] - 1).clamp(min=1)
    distance = point[..., None] - torch.arange(side, device=sizes.device)
    return (1 - distance.abs()).clamp(min=0) * (index < sizes[:, None])[..., None]


SPECS = (
    PatchingSpec(
        id="vilt-patches",
        targets=("transformers.models.vilt.modeling_vilt:ViltEmbeddings.visual_embed",),
        replacement=f"{__name__}:patch_visual_embed",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="Positions are resized and patches chosen in loops over images, of sizes that are data: no graph.",
        upstream=(source("models/vilt/modeling_vilt.py", "v5.24.0"),),
        proofs=("vilt",),
        kind="wrap",
    ),
)
