"""A graph of a model with images has a fixed number of them, and at least one.

Symptom: Qwen2-VL, Qwen2.5-VL, Qwen3-VL as a whole: `GuardOnDataDependentSymNode`; without it, a graph that stops in a
`Reshape` when it is given no patches, as it is after the first call of `generate`.
Cause: from 4.53 on, `get_image_features` splits the features by sizes, which are data, and `forward` puts them together
again. In Python a call without images skips the vision tower; a graph does not. (To 4.51 `forward` calls the tower
itself; see `placeholder_count`.)
What is done: while it is traced, the features are one part. One image of the smallest size is added, and its features
are dropped, so that the tower always has something to do. Sizes that come without patches do not count: `generate`
goes on passing `image_grid_thw`.
Can go: when upstream does not split what `forward` needs as one, and graphs can skip the tower.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec, Unchanged


def patch_get_media_features(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Make `get_image_features` or `get_video_features` take any number of images while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    from ._blank_image import OnePart, append_padding_image, drop_padding_features, merged_rows

    def method(self: Any, rows: Any, sizes: Any, *args: Any, **kwargs: Any) -> Any:
        if sizes is None or not is_traced(rows):
            return original(self, rows, sizes, *args, **kwargs)
        side = merged_rows(getattr(self, tower), rows)
        with OnePart():
            found = original(self, *append_padding_image(rows, sizes, side), *args, **kwargs)
        return drop_padding_features(found)

    def get_image_features(self: Any, pixel_values: Any, image_grid_thw: Any = None, *args: Any, **kwargs: Any) -> Any:
        return method(self, pixel_values, image_grid_thw, *args, **kwargs)

    def get_video_features(
        self: Any, pixel_values_videos: Any, video_grid_thw: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        return method(self, pixel_values_videos, video_grid_thw, *args, **kwargs)

    made = get_image_features if original.__name__ == "get_image_features" else get_video_features
    code, parameters = inspect.unwrap(original).__code__, list(inspect.signature(made).parameters)[:3]
    tower = next((name for name in _TOWERS if name in code.co_names), "")
    is_alike = tower and list(inspect.signature(original).parameters)[:3] == parameters
    return made if is_alike else Unchanged("it has other arguments, or another tower, than the method that was copied")


_TOWERS = ("visual", "vision_model", "vision_tower")
"""What vision encoders are called that know how many patches are merged."""

_NAMES = ("get_image_features", "get_video_features")
_QWEN2 = tuple(f"transformers.models.qwen2_vl.modeling_qwen2_vl:Qwen2VLModel.{name}" for name in _NAMES)
_QWEN25 = tuple(f"transformers.models.qwen2_5_vl.modeling_qwen2_5_vl:Qwen2_5_VLModel.{name}" for name in _NAMES)
# Its method for videos calls the one for images.
_QWEN3 = ("transformers.models.qwen3_vl.modeling_qwen3_vl:Qwen3VLModel.get_image_features",)
_COPIES = "methods_using(transformers:image_grid_thw)"
_SOURCE = (
    "https://github.com/huggingface/transformers/blob/{}/src/transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py"
)


def _variant(releases: str, targets: tuple[str, ...], tag: str, models: int) -> PatchingSpec:
    return PatchingSpec(
        id="image-count",
        targets=targets,
        replacement=f"{__name__}:patch_get_media_features",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="Features are split image by image, and a graph cannot skip the tower: no graph, or one that stops.",
        upstream=(_SOURCE.format(tag),),
        proofs=(*("qwen2_vl", "qwen2_5_vl", "qwen3_vl")[:models], "qwen2_vl_flat"),
        kind="wrap",
    )


SPECS = (
    _variant(">=4.52,<4.57", (*_QWEN2, *_QWEN25), "v4.53.0", 2),
    _variant(">=4.57", (*_QWEN2, *_QWEN25, *_QWEN3, _COPIES), "v5.23.0", 3),
)
