"""A variant of the tiny GPT whose last operator is a sum in half precision."""

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class HalfSumDecoder(GPTDecoder):
    """Gives the tokens so far, added up in half precision, in place of logits."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        return (input_ids + 1)[..., None].expand(logits.shape).to(torch.float16).cumsum(1), cache


def make_half_sum_gpt() -> PlainDecoder:
    """Build the tiny GPT that ends with a sum in half precision."""
    return PlainDecoder(HalfSumDecoder(make_tiny_gpt().model.gpt))
