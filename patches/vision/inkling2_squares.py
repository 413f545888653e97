"""The vision encoder of Inkling 2 and Inkling 2 Loop takes squares of patches and puts a token before each image.

Symptom: `The size of tensor a (4*s99 + 16) must match the size of tensor b (s99 + 4)`; without the other specs
`Could not guard on data-dependent expression`.
Cause: as that of `qwen-vl-grids`; but an item of the input is a square of patches that are merged, so there are more
patches than items, and the number of the image of each patch is repeated as often as the data say.
What is done: as in `qwen-vl-grids`: what depends on the sizes is computed for each patch, whose number is known.
Can go: when upstream computes them from the tensor of sizes.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec, Unchanged


def patch_vision_forward(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Make `forward` of the vision encoder number the image of each patch without a loop while it is traced."""
    if "patch_index" in inspect.signature(original).parameters:
        return Unchanged("its vision encoder has counted the patches")
    import torch

    from exportcompat.patches.toolkit.function_modes import Override
    from exportcompat.patches.toolkit.wrapping import when_traced

    from ._patch_coordinates import find_patch_coordinates
    from ._tower_context import counting

    def traced(self: Any, pixel_values: Any, image_grid_thw: Any, **kwargs: Any) -> Any:
        merge = self.config.spatial_merge_size
        count = pixel_values.shape[0] * merge**2
        sizes = image_grid_thw * torch.tensor([1, merge, merge], device=image_grid_thw.device)
        image = find_patch_coordinates(sizes, count, merge).image
        answers = {
            # Images are counted from 1 here.
            torch.repeat_interleave: lambda *_: image + 1,
            # `prod` has another answer while the images of a model are traced.
            torch.Tensor.prod: lambda _, grids, axis: grids[:, 0] * grids[:, 1] * grids[:, 2],
        }
        with counting(count), Override(answers):
            return original(self, pixel_values, image_grid_thw, **kwargs)

    return when_traced(original, traced)


_MODULE = "transformers.models.inkling2.modeling_inkling2"

SPECS = (
    PatchingSpec(
        id="inkling2-squares",
        targets=tuple(f"{_MODULE}:Inkling2Vision{part}.forward" for part in ("Model", "Embeddings")),
        replacement=f"{__name__}:patch_vision_forward",
        requires=("transformers>=5.24", "torch>=2.6"),
        reason="How many patches each image has is data, by which its number is repeated: no graph.",
        upstream=(source("models/inkling2/modeling_inkling2.py", "v5.24.0"),),
        proofs=("inkling2_vision",),
        kind="wrap",
    ),
)
