"""A variant of the tiny GPT that pools tokens into a fixed number of windows, and computes with small numbers."""

import torch
from torch import Tensor
from torch.nn import functional

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class PoolingDecoder(GPTDecoder):
    """Scales tokens by means of windows, by a mean of booleans, and by digits that a sum with 1 would lose."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        windows = functional.adaptive_avg_pool1d(attention_mask * position_ids.sum(1, keepdim=True) / 16.0, 3)
        share = (input_ids > 40).to(torch.int64).mean(1, keepdim=True, dtype=torch.float32)
        digits = torch.log1p(input_ids * 1e-7) * 1e6 + torch.expm1(input_ids * -1e-7) * 1e6
        unknown = torch.sign(torch.where(input_ids > 40, torch.nan, 1.0))
        scales = windows.sum(1, keepdim=True) + windows[:, 1:2] + share + digits + unknown
        return logits * (1 + scales)[..., None], cache


def make_pooling_gpt() -> PlainDecoder:
    """Build the tiny GPT that pools tokens."""
    return PlainDecoder(PoolingDecoder(make_tiny_gpt().model.gpt))
