"""Moonshine as a whole: sounds with a mask, and the texts that its decoder has so far."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import generator
from ._encoder_models import SoundEncoder


class Moonshine(SoundEncoder):
    """Sounds and texts; a shape is `(batch, samples, tokens)`, and every second sound is shorter than the others."""

    traced: Any = (2, 16000, 5)
    shapes: Sequence[Any] = ((1, 9000, 3), (2, 16001, 5), (3, 20095, 1), (5, 30000, 9))
    axes: Mapping[str, Any] = {
        "input_values": {0: "batch", 1: "samples"},
        "attention_mask": {0: "batch", 1: "samples"},
        "decoder_input_ids": {0: "batch", 1: "sequence"},
    }
    outputs: Sequence[str] = ("logits", "encoder_last_hidden_state")

    def inputs(self, shape: Any) -> dict[str, Any]:
        batch, samples, tokens = shape
        texts = torch.randint(3, 128, (batch, tokens), generator=generator())
        return {**super().inputs((batch, samples)), "decoder_input_ids": texts}


def make_moonshine() -> Moonshine:
    """Build Moonshine, with layers of its encoder and of its decoder."""
    from transformers import MoonshineConfig, MoonshineForConditionalGeneration

    sizes = {
        f"{part}_{name}": value
        for part in ("encoder", "decoder")
        for name, value in (("num_hidden_layers", 2), ("num_attention_heads", 4), ("num_key_value_heads", 4))
    }
    config = MoonshineConfig(vocab_size=128, hidden_size=32, intermediate_size=64, initializer_range=0.2, **sizes)
    config.use_cache = False
    return Moonshine(MoonshineForConditionalGeneration(config).eval())
