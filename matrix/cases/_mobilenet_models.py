"""MobileNet v1 and v2: images of any size, padded as TensorFlow pads them, by what a stride leaves."""

from collections.abc import Sequence
from typing import Any

import torch

from ._decoder import generator
from ._forward import Forward
from ._vision_encoder_models import Windows


class StridedImages(Windows):
    """Images with sides that are even, odd, or both; what is traced has a last map of several places."""

    traced = (2, 80, 144)
    shapes: Sequence[Any] = ((1, 48, 66), (3, 49, 67), (2, 64, 35), (1, 81, 145))


def make_mobilenet_v1() -> Forward:
    """Build MobileNet v1, a quarter as wide."""
    from transformers import MobileNetV1Config, MobileNetV1Model

    return StridedImages(_scaled(MobileNetV1Model(MobileNetV1Config(image_size=32, depth_multiplier=0.25))))


def make_mobilenet_v2() -> Forward:
    """Build MobileNet v2, a quarter as wide."""
    from transformers import MobileNetV2Config, MobileNetV2Model

    return StridedImages(_scaled(MobileNetV2Model(MobileNetV2Config(image_size=32, depth_multiplier=0.25))))


def _scaled(model: Any) -> Any:
    """Give each convolution weights that keep the size of what goes through many of them."""
    seed = generator()
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data = torch.randn(weight.shape, generator=seed) * (2 / weight[0].numel()) ** 0.5
    return model
