"""Doge: beyond a number of keys, those that score least are masked."""

from typing import Any

import torch

from ._causal_lm_models import make_causal
from ._decoder import TransformersDecoder, generator


class DogeDecoder(TransformersDecoder):
    """Has so many tokens that none comes twice: which of two equal keys is masked is for each runtime to say."""

    vocabulary = 60_000


def make_doge() -> DogeDecoder:
    """Build Doge with weights that tell keys apart; upstream begins with zeros, of which all score the same."""
    model: Any = make_causal("doge").model
    seed = generator()
    for name, weight in model.named_parameters():
        if name.endswith(".A"):
            weight.data = torch.randn(weight.shape, generator=seed)
    return DogeDecoder(model)
