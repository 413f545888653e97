"""Encoders: built from configurations, with random weights."""

from collections.abc import Mapping
from typing import Any

import torch

from exportcompat._decoder import TOKEN_AXES

from ._decoders import Sample, generator
from ._forward import Forward

_SIZES: Mapping[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.2,
}


class TextEncoder(Forward):
    """An encoder of texts; a shape is `(batch, sequence)`, and every second text has padding on the right."""

    traced = (2, 7)
    shapes = ((1, 1), (1, 12), (3, 5), (3, 70), (5, 128))
    axes: Mapping[str, Any] = dict.fromkeys(("input_ids", "attention_mask"), TOKEN_AXES)

    def shape_of(self, sample: Sample) -> tuple[int, int]:
        return self.traced if sample == Sample() else (sample.batch, sample.new)

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        mask = torch.ones(shape, dtype=torch.int64)
        mask[::2, -(shape[1] // 3) or shape[1] :] = 0
        return {"input_ids": torch.randint(3, 128, shape, generator=generator()), "attention_mask": mask}


def make_bert() -> Forward:
    """Build BERT."""
    from transformers import BertConfig, BertModel

    return TextEncoder(BertModel(BertConfig(**_SIZES)))
