"""TimesFM: series of any length, shorter and longer than what the model looks at."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import generator
from ._forward import Forward


class Series(Forward):
    """Series; a shape is `(batch, moments)`."""

    traced: tuple[int, int] = (2, 48)
    shapes: Sequence[tuple[int, int]] = ((1, 48), (3, 48), (2, 64), (2, 40), (4, 90))
    axes: Mapping[str, Any] = {"past_values": {0: "batch", 1: "moments"}}
    outputs = ("last_hidden_state", "mean_predictions", "full_predictions")

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        return {"past_values": torch.randn(shape, generator=generator())}


_SIZES: Mapping[str, Any] = {
    "patch_length": 8,
    "context_length": 64,
    "horizon_length": 16,
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "intermediate_size": 48,
    "head_dim": 8,
    "num_attention_heads": 4,
    "initializer_range": 0.2,
}


def make_timesfm() -> Series:
    """Build TimesFM, which looks at 64 moments and foretells 16."""
    from transformers import TimesFmConfig, TimesFmModelForPrediction

    return Series(TimesFmModelForPrediction(TimesFmConfig(**_SIZES)))


def make_timesfm2_5() -> Series:
    """Build TimesFM 2.5, which looks at 64 moments and foretells 16."""
    from transformers import TimesFm2_5Config, TimesFm2_5ModelForPrediction

    config = TimesFm2_5Config(**_SIZES, num_key_value_heads=4, output_quantile_len=16)
    return Series(TimesFm2_5ModelForPrediction(config))
