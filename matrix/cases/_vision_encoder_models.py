"""Images of any size, for models that see them in windows, or look for objects."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import generator
from ._encoder_models import ImageEncoder
from ._forward import Forward


class Windows(ImageEncoder):
    """A shape is `(batch, height, width)`: none, one side or both are whole patches and windows."""

    traced = (2, 64, 64)
    # In the last one the map of the second stage is as high as a window, and then windows are not shifted.
    shapes: Sequence[Any] = ((1, 64, 96), (3, 90, 70), (1, 133, 161), (2, 16, 40))
    outputs = ("last_hidden_state", "pooler_output")

    def inputs(self, shape: Any) -> dict[str, Any]:
        batch, *size = shape
        return {"pixel_values": torch.randn(batch, 3, *size, generator=generator())}


class SquareWindows(Windows):
    """Any number of images of one size, whose sizes are results beside the maps of features."""

    shapes = ((1, 64, 64), (3, 64, 64))
    axes: Mapping[str, Any] = {"pixel_values": {0: "images"}}


class Detector(Windows):
    """Finds objects in images whose sides are multiples of 32."""

    shapes = ((1, 64, 128), (3, 64, 96), (1, 160, 128))
    outputs = ("last_hidden_state", "intermediate_hidden_states")


_SWIN: Mapping[str, Any] = {
    "image_size": 32,
    "patch_size": 2,
    "embed_dim": 8,
    "depths": [2, 2],
    "num_heads": [2, 2],
    "window_size": 4,
    "initializer_range": 0.2,
}


def make_swin() -> Forward:
    """Build Swin; every second layer shifts its windows of 4 by 4 patches."""
    from transformers import SwinConfig, SwinModel

    return Windows(_random(SwinModel(SwinConfig(**_SWIN))))


def make_swinv2() -> Forward:
    """Build Swin v2."""
    from transformers import Swinv2Config, Swinv2Model

    return Windows(_random(Swinv2Model(Swinv2Config(**_SWIN))))


def make_maskformer_swin() -> Forward:
    """Build MaskFormer's Swin."""
    from transformers import MaskFormerSwinConfig
    from transformers.models.maskformer.modeling_maskformer_swin import MaskFormerSwinModel

    return SquareWindows(_random(MaskFormerSwinModel(MaskFormerSwinConfig(**_SWIN))))


def make_donut() -> Forward:
    """Build Donut's encoder."""
    from transformers import DonutSwinConfig, DonutSwinModel

    return Windows(_random(DonutSwinModel(DonutSwinConfig(**_SWIN))))


def make_focalnet() -> Forward:
    """Build FocalNet, which has no windows, but patches of 4 by 4."""
    from transformers import FocalNetConfig, FocalNetModel

    sizes = {"image_size": 32, "embed_dim": 8, "depths": [1, 1, 1, 1], "initializer_range": 0.2}
    return Windows(_random(FocalNetModel(FocalNetConfig(**sizes))))


def make_rt_detr() -> Forward:
    """Build RT-DETR; it goes on with the 10 best of all places."""
    from transformers import RTDetrConfig, RTDetrModel, RTDetrResNetConfig

    stages = {"out_features": ["stage2", "stage3", "stage4"], "layer_type": "basic"}
    backbone = RTDetrResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], **stages)
    sizes = {"d_model": 32, "encoder_hidden_dim": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    places = {"encoder_in_channels": [8, 16, 16], "decoder_in_channels": [32, 32, 32], "feat_strides": [8, 16, 32]}
    layers = {"decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_queries": 10}
    own = {"backbone_config": backbone, "use_pretrained_backbone": False, "num_denoising": 0}
    return Detector(_random(RTDetrModel(RTDetrConfig(**sizes, **places, **layers, **own))))


def _random(model: Any) -> Any:
    """Make all weights random: a model that begins with zeros finds each place as good as any other."""
    seed = generator()
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data = torch.randn(weight.shape, generator=seed) * 0.3
    return model
