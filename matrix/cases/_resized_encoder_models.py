"""Images of any size, for models that resize what they make of them."""

from collections.abc import Sequence
from typing import Any

from ._forward import Forward
from ._random_weights import randomized
from ._vision_encoder_models import Windows


class Maps(Windows):
    """Maps of an eighth, a sixteenth and a thirty-second of an image, with sides that are even, odd, or both.

    The smallest map of what is traced has several patches: of one, torch would make a constant.
    """

    traced = (2, 80, 144)
    shapes: Sequence[Any] = ((1, 64, 96), (3, 96, 72), (1, 130, 160), (2, 64, 64))


class PatchedImages(Windows):
    """Images in patches of 8 by 8; a model interpolates what it has learnt of their places."""

    traced = (2, 48, 64)
    shapes: Sequence[Any] = ((1, 32, 32), (3, 64, 32), (1, 96, 104))


def make_mobilevit() -> Forward:
    """Build MobileViT, whose patches are 2 by 2 places of a map."""
    from transformers import MobileViTConfig, MobileViTModel

    widths = {"hidden_sizes": [16, 16, 16], "neck_hidden_sizes": [8, 8, 8, 8, 8, 8, 16], "num_attention_heads": 4}
    return Maps(randomized(MobileViTModel(MobileViTConfig(image_size=64, **widths))))


def make_beit() -> Forward:
    """Build BEiT, with a bias for the place of each patch relative to each other, learnt for 4 by 4 patches."""
    from transformers import BeitConfig, BeitModel

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BeitConfig(image_size=32, patch_size=8, use_relative_position_bias=True, **sizes)
    return PatchedImages(randomized(BeitModel(config)))


def make_dinov2_with_registers() -> Forward:
    """Build DINOv2 with registers, which resizes what it has learnt of places with `antialias`."""
    from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = Dinov2WithRegistersConfig(image_size=64, patch_size=8, **sizes)
    return PatchedImages(randomized(Dinov2WithRegistersModel(config)))
