"""Models of texts with images and videos in one call, with the towers of `_qwen_vl_models`."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import Sample
from ._qwen_vl_models import Grids, ImageText, make_qwen2_5_vl_whole, make_qwen2_vl_whole, make_qwen3_vl_whole

_IMAGE, _VIDEO = 120, 121
_PARTS = (("pixel_values", "image_grid_thw"), ("pixel_values_videos", "video_grid_thw"))

Call = tuple[int, Grids, Grids]
"""How many texts, the images, and the videos, which come after them."""


class VideoText(ImageText):
    """A model of texts with images and videos; a shape is a `Call`."""

    traced: Any = (2, ((1, 16, 16),), ((2, 8, 12),))
    shapes: Sequence[Any] = (
        (1, ((1, 8, 12),), ((4, 6, 8),)),
        (1, (), ((3, 10, 14), (2, 6, 6))),
        (3, ((1, 12, 12), (1, 4, 20)), ((2, 18, 6), (1, 6, 6))),
        (2, ((1, 6, 8),), ()),
        (1, (), ()),
        (3, (), ()),
    )
    axes: Mapping[str, Any] = {**ImageText.axes, "pixel_values_videos": {0: "frames"}, "video_grid_thw": {0: "videos"}}

    def shape_of(self, sample: Sample) -> Any:
        return self.traced if sample == Sample() else (sample.batch, *self.traced[1:])

    def inputs(self, shape: Any) -> dict[str, Any]:
        batch, images, videos = shape
        together = super().inputs((batch, (*images, *videos)))
        sizes, rows = together["image_grid_thw"], together["pixel_values"]
        count = int(sizes[: len(images)].prod(1).sum())
        parts = zip(_PARTS, rows.tensor_split([count]), sizes.tensor_split([len(images)]), strict=True)
        media = {name: tensor for names, *tensors in parts for name, tensor in zip(names, tensors, strict=True)}
        return {**together, "input_ids": _split(together["input_ids"], count // 4), **media}

    def run(self, inputs: Mapping[str, Any]) -> Sequence[Any]:
        """Return the logits of an eager call; it is given no images, or videos, where there are none."""
        absent = [name for names in _PARTS if not inputs[names[0]].shape[0] for name in names]
        return super(ImageText, self).run({name: value for name, value in inputs.items() if name not in absent})


def _split(tokens: torch.Tensor, count: int) -> torch.Tensor:
    """Return tokens in which those for features beyond `count` are for videos."""
    is_feature = tokens == _IMAGE
    order = is_feature.flatten().cumsum(0).reshape(tokens.shape)
    return torch.where(is_feature & (order > count), _VIDEO, tokens)


_MAKERS = {"qwen2_vl": make_qwen2_vl_whole, "qwen2_5_vl": make_qwen2_5_vl_whole, "qwen3_vl": make_qwen3_vl_whole}


def make_video(name: str) -> VideoText:
    """Build a model that takes images and videos, by the name of its folder."""
    return VideoText(_MAKERS[name]().model)
