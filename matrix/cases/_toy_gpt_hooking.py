"""A variant of the tiny GPT that installs a hook when it is first called, as models of transformers 5.2 do."""

from typing import Any

from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class HookingDecoder(GPTDecoder):
    """Halves its logits by a hook of its last layer."""

    is_hooked = False

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        if not self.is_hooked:
            self.gpt.head.register_forward_hook(_halved)
            self.is_hooked = True
        return super().forward(input_ids, attention_mask, position_ids, past_key_values)


def _halved(module: Any, inputs: Any, output: Tensor) -> Tensor:
    return output / 2


def make_hooking_gpt() -> PlainDecoder:
    """Build the tiny GPT that installs a hook."""
    return PlainDecoder(HookingDecoder(make_tiny_gpt().model.gpt))
