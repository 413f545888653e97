"""Longformer and LED's encoder: a window around each token, and tokens that see all and are seen by all."""

from collections.abc import Mapping
from typing import Any

import torch

from exportcompat._verification import TOKEN_AXES

from ._encoder_decoder_models import make_encoder_decoder
from ._encoder_models import TextEncoder


class GlobalText(TextEncoder):
    """An encoder of texts with a mask of tokens with global attention; some texts have none, and some calls.

    Every second text has padding on the right, and the others have it on the left. Lengths are below the windows, as
    long as they are, and above, with and without a remainder.
    """

    traced = (2, 11)
    shapes = ((1, 1), (1, 3), (1, 8), (3, 5), (3, 16), (3, 30), (5, 71), (1, 128))
    axes: Mapping[str, Any] = {**TextEncoder.axes, "global_attention_mask": TOKEN_AXES}

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        batch, length = shape
        inputs = super().inputs(shape)
        mask = inputs["attention_mask"]
        mask[1::2, : length // 3] = 0
        # From none to two in seven tokens; a text alone has none if its length is a multiple of three.
        shares = (torch.arange(batch)[:, None] + length) % 3
        inputs["input_ids"].masked_fill_(mask == 0, self.model.config.pad_token_id)
        return {**inputs, "global_attention_mask": (torch.arange(length) % 7 < shares).long()}


def make_longformer() -> GlobalText:
    """Build Longformer."""
    from transformers import LongformerConfig, LongformerModel

    config = LongformerConfig(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        attention_window=[4, 8],
        max_position_embeddings=256,
        initializer_range=0.2,
    )
    return GlobalText(LongformerModel(config))


def make_led_encoder() -> GlobalText:
    """Build LED's encoder."""
    return GlobalText(make_encoder_decoder("LED").get_encoder())
