"""A variant of the tiny GPT that the exporter captures in its second try alone, given what the first left on it."""

from typing import Any

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt


class RetriedDecoder(GPTDecoder):
    """Installs a hook in a way that Dynamo cannot trace, and takes Dynamo's capture alone.

    CLIPSeg of transformers does both: a lock is held while hooks are installed, and `len(input_ids)` stops the capture
    that is not Dynamo's.
    """

    is_hooked = False

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        if not self.is_hooked:
            torch._dynamo.graph_break()
            self.gpt.head.register_forward_hook(_halved)
            self.is_hooked = True
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        # To Dynamo it is a tensor like any other; what else captures a call has a class of its own.
        if type(logits) is not Tensor:
            raise RuntimeError("this capture is not Dynamo's")
        return logits, cache


def _halved(module: Any, inputs: Any, output: Tensor) -> Tensor:
    return output / 2


def make_retried_gpt() -> PlainDecoder:
    """Build the tiny GPT that is captured in the second try."""
    return PlainDecoder(RetriedDecoder(make_tiny_gpt().model.gpt))
