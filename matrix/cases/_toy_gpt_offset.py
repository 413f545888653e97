"""A variant of the tiny GPT that adds an integer to a weight, as norms do whose weights begin at 0."""

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache, TinyGPT

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class OffsetDecoder(GPTDecoder):
    """Multiplies its logits by a weight plus 1, as Nemotron's layer norm does with what it has normalized."""

    def __init__(self, gpt: TinyGPT) -> None:
        super().__init__(gpt)
        self.scale = torch.nn.Parameter(torch.rand(()))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        return logits * (self.scale + 1), cache


def make_offset_gpt() -> PlainDecoder:
    """Build the tiny GPT whose logits are scaled."""
    return PlainDecoder(OffsetDecoder(make_tiny_gpt().model.gpt))
