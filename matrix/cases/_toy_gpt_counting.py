"""A variant of the tiny GPT that makes numbers of sizes, as models of images do for the sides of a map."""

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class CountingDecoder(GPTDecoder):
    """Scales its logits by the place of each token, counted up to `int` of a size.

    It refuses Dynamo, as many models of transformers do for reasons of their own; Dynamo keeps `int` of a size.
    """

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        if torch.compiler.is_dynamo_compiling():
            raise RuntimeError("this capture is Dynamo's")
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        places = torch.arange(int(input_ids.shape[1] * 1.0))
        return logits * (1 + places[:, None] / 256), cache


def make_counting_gpt() -> PlainDecoder:
    """Build the tiny GPT that counts up to a size."""
    return PlainDecoder(CountingDecoder(make_tiny_gpt().model.gpt))
