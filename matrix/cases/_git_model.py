"""GIT, called with texts alone, behind a cache, whose mask is made from it; and for whole texts with an image."""

from collections.abc import Mapping
from typing import Any

import torch

from ._decoder import TransformersDecoder, generator
from ._encoder_models import TextEncoder

_SIDE = 16


class WholeTextWithImage(TextEncoder):
    """A model of whole texts with an image each, which gives logits of the patches and the tokens."""

    axes: Mapping[str, Any] = {**TextEncoder.axes, "pixel_values": {0: "batch"}}
    outputs = ("logits",)

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        return {**super().inputs(shape), "pixel_values": torch.randn(shape[0], 3, _SIDE, _SIDE, generator=generator())}


def make_git() -> TransformersDecoder:
    """Build GIT with a small vision encoder, which no call uses."""
    return TransformersDecoder(_model())


def make_git_whole() -> WholeTextWithImage:
    """Build GIT without a cache."""
    return WholeTextWithImage(_model(use_cache=False))


def _model(**settings: Any) -> Any:
    from transformers import GitConfig, GitForCausalLM

    vision: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    config = GitConfig(
        vision_config={**vision, "num_attention_heads": 4, "image_size": _SIDE, "patch_size": 8},
        vocab_size=128,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        initializer_range=0.2,
        **settings,
    )
    return GitForCausalLM(config)
