"""SLANet and SLANeXt: tables of images, whose structure ends after as many steps as it takes."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import generator
from ._forward import Forward

_TOKENS, _MOST = 6, 12


class Tables(Forward):
    """Reads tables; a shape is `(batch, contrast)`, and images of another contrast end after other steps."""

    traced: tuple[int, float] = (2, 1.0)
    shapes: Sequence[tuple[int, float]] = ((1, 1.0), (3, 2.0), (1, 4.0), (2, 0.0), (4, 3.0))
    axes: Mapping[str, Any] = {"pixel_values": {0: "batch"}}

    def inputs(self, shape: tuple[int, float]) -> dict[str, Any]:
        batch, contrast = shape
        return {"pixel_values": contrast * torch.randn(batch, 3, 128, 128, generator=generator())}


def make_tables(model_type: str) -> Tables:
    """Build a model of tables of 6 tokens and 13 steps at most; its last token ends a table."""
    from exportcompat.matrix.zoo import build_type

    fields = {"out_channels": _TOKENS, "max_text_length": _MOST}
    model = build_type("AutoModelForTableRecognition", model_type, fields)
    with torch.no_grad():
        for weight in model.head.parameters():
            weight.copy_(0.6 * torch.randn(weight.shape, generator=generator()))
    return Tables(model)
