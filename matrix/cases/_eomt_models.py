"""EoMT and EoMT-DINOv3: segments of an image, from queries that the last layers see beside its patches."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import torch

from ._decoder import generator
from ._forward import Forward
from ._random_weights import randomized


class Segments(Forward):
    """Finds segments in images of the one size that a model has; a shape is a number of images."""

    traced: int = 2
    shapes: Sequence[int] = (1, 3, 7)
    axes: Mapping[str, Any] = {"pixel_values": {0: "batch"}}
    outputs = ("class_queries_logits", "masks_queries_logits", "last_hidden_state")

    def inputs(self, shape: int) -> dict[str, Any]:
        return {"pixel_values": torch.randn(shape, 3, 64, 64, generator=generator())}


def make_eomt() -> Forward:
    """Build EoMT."""
    return _make("eomt", "Eomt", mlp_ratio=2)


def make_eomt_dinov3() -> Forward:
    """Build EoMT-DINOv3."""
    return _make("eomt_dinov3", "EomtDinov3", intermediate_size=64)


def _make(folder: str, name: str, **own: Any) -> Forward:
    """Build a model of five layers, the last four with queries, some of which mask what these see."""
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    sizes = {"hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4, "num_queries": 6}
    images = {"image_size": 64, "patch_size": 16, "num_register_tokens": 2, "num_upscale_blocks": 1}
    config = getattr(module, f"{name}Config")(**sizes, **images, **own)
    # Its loss needs scipy, which is not installed everywhere, and is not computed.
    with patch.object(module, "requires_backends"):
        model = randomized(getattr(module, f"{name}ForUniversalSegmentation")(config), 0.1)
    model.attn_mask_probs.copy_(torch.tensor([0.0, 1.0, 0.0, 1.0]))
    return Segments(model)
