"""A variant of the tiny GPT with recurrent layers of all kinds behind it."""

import torch
from torch import Tensor, nn

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt

_SIZE = 6
_TWO_WAYS = {"bidirectional": True, "num_layers": 2, "batch_first": True}


class RecurringDecoder(GPTDecoder):
    """Scales its logits by the results of recurrent layers, and by the states that they end with."""

    def __init__(self, gpt: nn.Module) -> None:
        super().__init__(gpt)
        self.recurrent = nn.ModuleList(
            (
                nn.RNN(_SIZE, _SIZE, nonlinearity="relu", **_TWO_WAYS),
                nn.LSTM(_SIZE, _SIZE, proj_size=4, **_TWO_WAYS),
                nn.LSTM(_SIZE, _SIZE, bias=False, **_TWO_WAYS),
                nn.GRU(_SIZE, _SIZE, **_TWO_WAYS),
            )
        )
        self.single = nn.RNN(_SIZE, _SIZE)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        x = torch.sin((input_ids + position_ids)[..., None] * torch.arange(1, _SIZE + 1))
        # One text without an axis for the batch.
        scales = 1 + self.single(x.sum(0))[0].mean(-1)
        for layer in self.recurrent:
            found, states = layer(x)
            last = states[1] if isinstance(states, tuple) else states
            scales = scales + found.mean(-1) + last.mean((0, 2))[:, None]
        return logits * scales[..., None], cache


def make_recurring_gpt() -> PlainDecoder:
    """Build the tiny GPT with recurrent layers."""
    return PlainDecoder(RecurringDecoder(make_tiny_gpt().model.gpt))
