"""A variant of the tiny GPT that turns vectors as complex numbers, and attends to tensors of three and five axes."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt

_SIZE = 8


class RotatingDecoder(GPTDecoder):
    """Scales each token by attention between the new ones, whose vectors are turned by their positions."""

    def __init__(self, gpt: nn.Module) -> None:
        super().__init__(gpt)
        angles = torch.outer(torch.arange(512), 10_000.0 ** (-torch.arange(0, _SIZE, 2) / _SIZE))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        x = torch.cos(input_ids[..., None] * torch.arange(1, _SIZE + 1))
        turned = self.turns[position_ids] * self.turns[: input_ids.shape[1]][None].conj()
        x = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turned).flatten(-2)
        x = functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        heads = x.unflatten(-1, (2, 2, -1)).permute(0, 2, 3, 1, 4)
        mask = (input_ids > 40)[:, None, None, None] | torch.eye(input_ids.shape[1], dtype=torch.bool)
        heads = functional.scaled_dot_product_attention(heads, heads, heads, mask)
        return logits * (1 + heads.mean((1, 2, 4)))[..., None], cache


def make_rotating_gpt() -> PlainDecoder:
    """Build the tiny GPT that turns vectors."""
    return PlainDecoder(RotatingDecoder(make_tiny_gpt().model.gpt))
