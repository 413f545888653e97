"""A variant of the tiny GPT that asks what most tokens are, by operators that ONNX lacks."""

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class VotingDecoder(GPTDecoder):
    """Scales each token by the median of all, the one that is there most often, and what is left of both."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        middle, most = input_ids.median(1, keepdim=True).values, input_ids.mode(1, keepdim=True).values
        shared = torch.gcd(input_ids, middle + 1) + (input_ids % 3 - 1).cumprod(1)
        is_any = (input_ids > middle) + (input_ids > most)
        lengths = torch.hypot(input_ids.float(), torch.fmax(middle, most).float()) / 64
        return logits * (1 + torch.copysign(lengths + shared + is_any, input_ids - middle))[..., None], cache


def make_voting_gpt() -> PlainDecoder:
    """Build the tiny GPT that asks what most tokens are."""
    return PlainDecoder(VotingDecoder(make_tiny_gpt().model.gpt))
