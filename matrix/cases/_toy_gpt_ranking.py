"""A variant of the tiny GPT that ranks tokens, by operators that ONNX lacks."""

from typing import Any

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class RankingDecoder(GPTDecoder):
    """Scales each token by the largest token and the place of the smallest so far, and by its class."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.register_buffer("bounds", torch.tensor([10, 40, 41, 90]))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        largest, place = torch.cummax(input_ids, 1).values, torch.cummin(input_ids, 1).indices
        scales = largest / 64 + place / 8 + torch.searchsorted(self.bounds, input_ids, right=True)
        return logits * (1 + scales + torch.isin(input_ids, torch.arange(3, 40)))[..., None], cache


def make_ranking_gpt() -> PlainDecoder:
    """Build the tiny GPT that ranks tokens."""
    return PlainDecoder(RankingDecoder(make_tiny_gpt().model.gpt))
