"""Arguments that models want beside texts, images and sounds."""

import inspect
from typing import Any

from exportcompat._extras import require

_SIDE = 3
"""Patches of the shorter side of an image."""


def complete(model: Any, call: dict[str, Any]) -> dict[str, Any]:
    """Return a call with what `forward` wants beside, and without what it does not take as it is."""
    known = inspect.signature(model.forward).parameters
    return _with_patches(model, call) if "spatial_shapes" in known and "pixel_values" in call else call


def _with_patches(model: Any, call: dict[str, Any]) -> dict[str, Any]:
    """Return a call whose images are rows of patches, `(batch, patches, features)`, as SigLIP 2 takes them."""
    torch = require("torch", "torch")
    config = getattr(model.config, "vision_config", model.config)
    features = config.num_channels * config.patch_size**2
    pixels = torch.rand(2, _SIDE * 2 * _SIDE, features, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(pixels.shape[:2], dtype=torch.int64)
    shapes = torch.tensor([[_SIDE, 2 * _SIDE]] * 2)
    return {**call, "pixel_values": pixels, "pixel_attention_mask": mask, "spatial_shapes": shapes}
