"""Doge: beyond a number of keys, those that score least are masked."""

from collections.abc import Mapping
from typing import Any

import torch

from ._causal_lm_models import make_causal
from ._decoder import TransformersDecoder, generator


class DogeDecoder(TransformersDecoder):
    """Has so many tokens that none comes twice: which of two equal keys is masked is for each runtime to say."""

    vocabulary = 60_000

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        # To 5.17 a prompt has no causal mask with sdpa, unless a text beside it is padded.
        rows = {name: torch.cat([item, item[:1]]) for name, item in inputs.items()}
        rows["attention_mask"][-1, 0] = 0
        logits, cache = super().__call__(rows, cache)
        return logits[:-1], cache


def make_doge() -> DogeDecoder:
    """Build Doge with weights that tell keys apart; upstream begins with zeros, of which all score the same."""
    model: Any = make_causal("doge").model
    seed = generator()
    for name, weight in model.named_parameters():
        if name.endswith(".A"):
            weight.data = torch.randn(weight.shape, generator=seed)
    return DogeDecoder(model)
