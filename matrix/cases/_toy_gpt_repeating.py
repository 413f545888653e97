"""A variant of the tiny GPT that repeats items as often as a text has tokens."""

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class RepeatingDecoder(GPTDecoder):
    """Scales each text by its first position and its first token, repeated along the text."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        new = input_ids.shape[1]
        scales = torch.cat([position_ids[:, :1], input_ids[:, :1]], dim=1) / 128 + 1
        scales = scales.repeat_interleave(new, dim=1)
        return logits * (scales[:, :new] + scales[:, -new:])[:, :, None], cache


def make_repeating_gpt() -> PlainDecoder:
    """Build the tiny GPT that repeats items."""
    return PlainDecoder(RepeatingDecoder(make_tiny_gpt().model.gpt))
