"""A variant of the tiny GPT that scales integers by a share of a size."""

from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class ScalingDecoder(GPTDecoder):
    """Scales each token by its number and its position, which the length of the text scales and is taken from."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        share = input_ids.shape[1] / 7
        scales = position_ids * share + (share - input_ids) / 8
        return logits * (1 + scales / 64)[:, :, None], cache


def make_scaling_gpt() -> PlainDecoder:
    """Build the tiny GPT that scales integers."""
    return PlainDecoder(ScalingDecoder(make_tiny_gpt().model.gpt))
