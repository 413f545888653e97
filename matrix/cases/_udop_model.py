"""The encoder of UDOP, for words with boxes on an image."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import generator
from ._forward import Forward

_PIXELS = 32
_SETTINGS: dict[str, Any] = {
    "vocab_size": 99,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "image_size": _PIXELS,
    # 4 patches along a side.
    "patch_size": 8,
    "max_2d_position_embeddings": 64,
}


class Documents(Forward):
    """The encoder; a shape is `(batch, words)`, and every second document has fewer words than the others."""

    traced: Any = (2, 7)
    shapes: Sequence[Any] = ((1, 5), (3, 9), (2, 60), (4, 1))
    axes: Mapping[str, Any] = {
        **{name: {0: "batch", 1: "words"} for name in ("input_ids", "attention_mask", "bbox")},
        "pixel_values": {0: "batch"},
    }
    outputs: Sequence[str] = ("last_hidden_state", "mask")

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        random, (batch, words) = generator(), shape
        mask = torch.ones(shape, dtype=torch.int64)
        mask[1::2, -(words // 3) :] = 0 if words > 2 else 1
        corners = torch.rand(batch, words, 2, 2, generator=random).sort(2).values
        # The first word lies nowhere, as special tokens do, and several lie on one patch.
        corners[:, 0] = 0.0
        return {
            "input_ids": torch.randint(3, 99, shape, generator=random),
            "attention_mask": mask,
            "bbox": corners.flatten(2),
            "pixel_values": torch.randn(batch, 3, _PIXELS, _PIXELS, generator=random),
        }

    def results(self, output: Any) -> Sequence[Any]:
        return [output.last_hidden_state, output.attention_mask]


def make_udop_encoder() -> Documents:
    """Build a tiny encoder."""
    from transformers import UdopConfig, UdopEncoderModel

    return Documents(UdopEncoderModel(UdopConfig(**_SETTINGS)).eval())
