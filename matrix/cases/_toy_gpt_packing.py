"""A variant of the tiny GPT with an encoder of torch behind it that is told of padding."""

import torch
from torch import Tensor, nn

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt

_SIZE = 8


class PackingDecoder(GPTDecoder):
    """Scales its logits by what an encoder makes of the new tokens, of which it takes some for padding."""

    def __init__(self, gpt: nn.Module) -> None:
        super().__init__(gpt)
        layer = nn.TransformerEncoderLayer(_SIZE, 2, 2 * _SIZE, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(_SIZE))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        x = torch.sin(input_ids[..., None] * torch.arange(1, _SIZE + 1))
        places = torch.arange(input_ids.shape[1])
        encoded = self.encoder(x, src_key_padding_mask=places > input_ids[:, :1] % 4)
        mixed = self.encoder(x, src_key_padding_mask=(places == input_ids[:, :1] % 4) & (places > 0))
        scales = torch.arange(1, _SIZE + 1) / _SIZE
        return logits * (1 + ((encoded + mixed) * scales).sum(-1))[..., None], cache


def make_packing_gpt() -> PlainDecoder:
    """Build the tiny GPT with an encoder."""
    return PlainDecoder(PackingDecoder(make_tiny_gpt().model.gpt))
