"""AIMv2: texts beside images, of batches with padding and without."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import generator
from ._forward import Forward


class Pairs(Forward):
    """A shape is `(batch, sequence, padding)`: so many tokens of the first text are padding, on the right."""

    traced: tuple[int, int, int] = (2, 7, 2)
    shapes: Sequence[tuple[int, int, int]] = ((1, 9, 0), (3, 5, 0), (3, 12, 4), (1, 8, 3))
    axes: Mapping[str, Any] = {
        "input_ids": {0: "batch", 1: "sequence"},
        "attention_mask": {0: "batch", 1: "sequence"},
        "pixel_values": {0: "batch"},
    }
    outputs = ("logits_per_image", "logits_per_text", "text_embeds", "image_embeds")

    def inputs(self, shape: tuple[int, int, int]) -> dict[str, Any]:
        batch, sequence, padding = shape
        ids = torch.randint(3, 64, (batch, sequence), generator=generator())
        ids[:, sequence - padding - 1] = self.model.config.text_config.eos_token_id
        mask = torch.ones_like(ids)
        mask[0, sequence - padding :] = 0
        side = self.model.config.vision_config.image_size
        pixels = torch.rand(batch, 3, side, side, generator=generator())
        return {"input_ids": ids, "pixel_values": pixels, "attention_mask": mask}


def make_aimv2() -> Pairs:
    """Build AIMv2 as the zoo does."""
    from exportcompat.matrix.zoo import build_type

    return Pairs(build_type("feature-extraction", "aimv2"))
