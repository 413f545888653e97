"""A variant of the tiny GPT that takes elements along an axis."""

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class TakingDecoder(GPTDecoder):
    """Adds to the logits of each token the ones that it names, by indices of all texts and by those of one."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        named = torch.take_along_dim(logits, (input_ids % 7)[..., None], -1)
        first = logits.take_along_dim(torch.arange(3).expand(1, 1, 3), dim=2)
        return logits + named + first.sum(-1, keepdim=True), cache


def make_taking_gpt() -> PlainDecoder:
    """Build the tiny GPT that takes elements along an axis."""
    return PlainDecoder(TakingDecoder(make_tiny_gpt().model.gpt))
