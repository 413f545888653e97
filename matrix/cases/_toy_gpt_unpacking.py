"""A variant of the tiny GPT with recurrent layers that go through texts of different lengths, packed."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt

_SIZE = 6


class UnpackingDecoder(GPTDecoder):
    """Scales its logits by what recurrent layers make of the first tokens of each text, a number of its own."""

    def __init__(self, gpt: nn.Module) -> None:
        super().__init__(gpt)
        self.memory = nn.LSTM(_SIZE, _SIZE, num_layers=2, bidirectional=True, batch_first=True)
        self.gated = nn.GRU(_SIZE, _SIZE, batch_first=True)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        x = torch.sin(input_ids[..., None] * torch.arange(1, _SIZE + 1))
        lengths = 1 + input_ids[:, 0] % input_ids.shape[1]
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        remembered, (_, cells) = self.memory(packed)
        found, states = self.gated(packed)
        total = input_ids.shape[1]
        places = pad_packed_sequence(remembered, batch_first=True, total_length=total)[0].mean(-1)
        longest = pad_packed_sequence(found, batch_first=True)[0].mean((1, 2))
        ends = cells.mean((0, 2)) + states.mean((0, 2)) + longest
        return logits * (1 + places + ends[:, None])[..., None], cache


def make_unpacking_gpt() -> PlainDecoder:
    """Build the tiny GPT with packed texts."""
    return PlainDecoder(UnpackingDecoder(make_tiny_gpt().model.gpt))
