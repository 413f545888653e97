"""A variant of the tiny GPT that rounds quotients, of floats and of large integers."""

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class DividingDecoder(GPTDecoder):
    """Scales each token by quotients and remainders of its number and its position."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        tenths = position_ids / 10
        third = torch.div(input_ids * 2**33 + position_ids, 3, rounding_mode="floor") % 7
        scales = tenths // 0.1 + 10 * (tenths % 0.1) + third
        return logits * (1 + scales / 16)[:, :, None], cache


def make_dividing_gpt() -> PlainDecoder:
    """Build the tiny GPT that rounds quotients."""
    return PlainDecoder(DividingDecoder(make_tiny_gpt().model.gpt))
