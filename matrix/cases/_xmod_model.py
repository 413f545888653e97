"""X-MOD, whose layers end in an adapter for the language of a text."""

from collections.abc import Mapping
from typing import Any

import torch

from ._encoder_models import TextEncoder


class Languages(TextEncoder):
    """Texts of two languages, of which there are three; neighbours are of one, or of another one."""

    axes: Mapping[str, Any] = {**TextEncoder.axes, "lang_ids": {0: "batch"}}

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        return {**super().inputs(shape), "lang_ids": torch.tensor([0, 0, 2, 2, 0])[-shape[0] :]}


def make_xmod() -> Languages:
    """Build X-MOD for three languages."""
    from transformers import XmodConfig, XmodModel

    config = XmodConfig(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        initializer_range=0.2,
        pad_token_id=1,
        languages=("en_XX", "de_DE", "fr_XX"),
        default_language="en_XX",
    )
    return Languages(XmodModel(config))
