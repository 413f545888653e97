"""Kimi K2.5, Muse Spark and Muse Glimmer have functions of their own that walk over the sizes of images.

Symptom: `Could not guard on data-dependent expression u0 > 1`, in `get_vision_frame_index`; `only one dimension can be
inferred`, in `get_vision_pixel_shuffle_index`.
Cause: as that of `qwen-vl-grids`. Kimi K2.5 numbers the frames of videos and averages them, the others put patches that
are merged behind each other.
What is done: as in `qwen-vl-grids`. How many features averaged frames leave is data.
Can go: when upstream computes them from the tensor of sizes.
"""

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec

_FUNCTIONS = {
    "kimi_k25": ("get_vision_frame_index", "get_vision_temporal_merge_index"),
    "muse_spark": ("get_vision_pixel_shuffle_index",),
    "muse_glimmer": ("get_vision_pixel_shuffle_index",),
}

SPECS = (
    PatchingSpec(
        id="own-grid-functions",
        targets=tuple(
            f"transformers.models.{model}.modeling_{model}:{name}"
            for model, names in _FUNCTIONS.items()
            for name in names
        ),
        replacement="exportcompat.patches.vision._grid_methods:patch_grid_method",
        requires=("transformers>=5.24", "torch>=2.6"),
        reason="Loops over the sizes of images, which are data: no graph.",
        upstream=tuple(source(f"models/{model}/modeling_{model}.py", "v5.24.0") for model in _FUNCTIONS),
        proofs=tuple(f"{model}_vision" for model in _FUNCTIONS),
        kind="wrap",
    ),
)
