"""A variant of the tiny GPT with a table that is made longer as texts are, as rotary cosines once were."""

from typing import Any

import torch
from torch import Tensor, nn

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class Table(nn.Module):  # type: ignore[misc,unused-ignore]
    """A number for each position: as many as were asked for so far, and 16 at first."""

    def __init__(self) -> None:
        super().__init__()
        self._grow(16)

    def _grow(self, length: int) -> None:
        self.length_cached = length
        self.register_buffer("numbers", 1 + torch.arange(length) / 256, persistent=False)

    def forward(self, length: int) -> Any:
        """Return the numbers of the first positions, `(length,)`."""
        if length > self.length_cached:
            self._grow(length)
        return self.numbers[:length]


class GrowingDecoder(GPTDecoder):
    """Scales its logits by a number for the position of each token."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.table = Table()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        return logits * self.table(attention_mask.shape[1])[position_ids][..., None], cache


def make_growing_gpt() -> PlainDecoder:
    """Build the tiny GPT that lengthens a table."""
    return PlainDecoder(GrowingDecoder(make_tiny_gpt().model.gpt))
