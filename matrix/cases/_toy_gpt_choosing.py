"""A variant of the tiny GPT that chooses between masks, as models do that take padding or images out of a mask."""

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class ChoosingDecoder(GPTDecoder):
    """Makes its mask again by choices between booleans, tensors and numbers, and between integers of 16 bits."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        is_text = attention_mask != 0
        chosen = torch.where(is_text, ~is_text, is_text).masked_fill(is_text, True)
        chosen[~is_text] = False
        chosen = torch.where(is_text, chosen, False)
        mask = chosen.to(torch.int16).masked_fill(~is_text, 0).to(attention_mask.dtype)
        return super().forward(input_ids, mask, position_ids, past_key_values)


def make_choosing_gpt() -> PlainDecoder:
    """Build the tiny GPT whose mask is chosen."""
    return PlainDecoder(ChoosingDecoder(make_tiny_gpt().model.gpt))
