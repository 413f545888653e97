"""A variant of the tiny GPT that rounds a size to the next number, and takes its logarithm."""

import math

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class RoundingDecoder(GPTDecoder):
    """Scales its logits by a size that is rounded, divided with a remainder, and by its logarithm and exponential."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        length = input_ids.shape[1]
        quotient, remainder = divmod(length, 3)
        scale = math.log(length + 1, 8) + math.exp(-length / 4) + round(length / 7, 2) + quotient - remainder / 8
        places = torch.arange(round(length * 1.5))[:length]
        return logits * (scale + places[:, None] / 256), cache


def make_rounding_gpt() -> PlainDecoder:
    """Build the tiny GPT that rounds a size."""
    return PlainDecoder(RoundingDecoder(make_tiny_gpt().model.gpt))
