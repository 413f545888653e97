"""A variant of the tiny GPT that fills a part of a tensor."""

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class FillingDecoder(GPTDecoder):
    """Scales the logits by a table, of which the first rows, all but the edges, or the last columns are filled."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        batch, length = input_ids.shape
        # As vision encoders mask what they pad images with, and as models write a text between two tokens of their own.
        table = torch.ones(batch, 4, length).repeat(1, 1, 3)
        table[:, :, -3:] = 0.5
        table[:, 1:-1].mul_(0.7)
        framed = torch.zeros(batch, length + 2)
        framed[:, 1:-1] = torch.cos(input_ids.float())
        framed[:, 1:] += 0.1
        return logits * (table.sum((1, 2))[:, None] / length + framed[:, :-2] + framed[:, 2:])[..., None], cache


def make_filling_gpt() -> PlainDecoder:
    """Build the tiny GPT that fills a part of a tensor."""
    return PlainDecoder(FillingDecoder(make_tiny_gpt().model.gpt))
