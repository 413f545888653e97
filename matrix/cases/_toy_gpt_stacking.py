"""A variant of the tiny GPT with layers of torch behind it that have a causal mask."""

import math

import torch
from torch import Tensor, nn

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt

_SIZE = 8


class StackingDecoder(GPTDecoder):
    """Scales its logits by what layers make of the new tokens, where padding in front may attend to nothing."""

    def __init__(self, gpt: nn.Module) -> None:
        super().__init__(gpt)
        options = {"dropout": 0.0, "batch_first": False}
        encoder = nn.TransformerEncoderLayer(_SIZE, 2, 2 * _SIZE, **options)
        self.encoder = nn.TransformerEncoder(encoder, 2, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(_SIZE, 2, 2 * _SIZE, **options), 1)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        batch, length = input_ids.shape
        x = torch.sin(input_ids[..., None] * torch.arange(1, _SIZE + 1)).transpose(0, 1)
        causal = torch.full((length, length), -math.inf).triu(1)
        padding = torch.zeros(batch, length).masked_fill(input_ids.cumsum(1) % 3 == 0, -math.inf)
        encoded = self.encoder(x, mask=causal, src_key_padding_mask=padding)
        decoded = self.decoder(x, encoded, tgt_mask=causal, memory_key_padding_mask=padding)
        scales = torch.arange(1, _SIZE + 1) / _SIZE
        return logits * (1 + (decoded * scales).sum(-1).transpose(0, 1))[..., None], cache


def make_stacking_gpt() -> PlainDecoder:
    """Build the tiny GPT with layers of torch."""
    return PlainDecoder(StackingDecoder(make_tiny_gpt().model.gpt))
