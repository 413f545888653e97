"""LFM2-VL takes the features of each image apart by sizes that are data.

Symptom: `Could not guard on data-dependent expression`, in `get_image_features`.
Cause: a loop over images cuts each to its number of patches, gives it its own height and width, and projects it alone.
What is done: while it is traced, the patches of all images are picked at once, and so are the squares to be projected.
Sizes that come without images do not count: `generate` goes on passing them.
With transformers 4 the features are a list, and squares are always normalized.
Can go: when upstream computes the squares from the tensor of sizes.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants


def patch_lfm2_get_image_features(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `get_image_features` project the merged patches of all images at once while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    signature = inspect.signature(original)

    def get_image_features(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        pixels = given["pixel_values"]
        if not is_traced(pixels):
            return original(self, *args, **kwargs)
        sizes, mask = (_of_images(given[name], pixels) for name in ("spatial_shapes", "pixel_attention_mask"))
        output = self.vision_tower(pixel_values=pixels, spatial_shapes=sizes, pixel_attention_mask=mask)
        output.pooler_output = [_projected(self.multi_modal_projector, output.last_hidden_state[mask.bool()], sizes)]
        return output

    return get_image_features


def patch_lfm2_list_of_features(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `get_image_features` of transformers 4 return the same features, in a list."""
    made = patch_lfm2_get_image_features(original)

    def get_image_features(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = made(self, *args, **kwargs)
        return found if isinstance(found, list) else found.pooler_output

    return get_image_features


def _of_images(rows: Any, pixels: Any) -> Any:
    """Return the rows that have images: `generate` goes on passing sizes and masks without them."""
    import torch

    return rows.index_select(0, torch.arange(pixels.shape[0], device=rows.device))


def _projected(projector: Any, patches: Any, sizes: Any) -> Any:
    """Return a feature for each square, `(squares, channels)`.

    Args:
        projector: the projector of the model.
        patches: the patches of all images, one after the other, `(patches, channels)`.
        sizes: rows and columns of each image in patches, `(images, 2)`, int64.
    """
    from exportcompat.patches.toolkit.patch_merging import merged_patches

    states = patches[merged_patches(sizes, projector.factor, patches.shape[0])].flatten(1)
    if projector.layer_norm is not None:
        states = projector.layer_norm(states)
    return projector.linear_2(projector.act(projector.linear_1(states)))


SPECS = variants(
    {
        "id": "lfm2-vl-patch-merging",
        "targets": ("transformers.models.lfm2_vl.modeling_lfm2_vl:Lfm2VlModel.get_image_features",),
        "replacement": f"{__name__}:patch_lfm2_get_image_features",
        "reason": "The features of each image are taken apart by sizes that are data, to project squares: no graph.",
        "upstream": (source("models/lfm2_vl/modeling_lfm2_vl.py", "v5.23.0"),),
        "kind": "wrap",
    },
    {
        "transformers>=4.57,<5": {
            "replacement": f"{__name__}:patch_lfm2_list_of_features",
            "upstream": (source("models/lfm2_vl/modeling_lfm2_vl.py", "v4.57.6"),),
            "proofs": ("lfm2_vl_export",),
        },
        "transformers>=5,<5.5": {"proofs": ("lfm2_vl_export",)},
        "transformers>=5.5": {"proofs": ("lfm2_vl",)},
    },
)
