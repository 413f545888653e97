"""A variant of the tiny GPT whose last operator is a sum in half precision."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache
from exportcompat.registry import ExportCompatError

from ._comparisons import compare_decoder
from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportcompat import Discrepancy

_WANTED = "tensor(float16)"


class HalfSumDecoder(GPTDecoder):
    """Gives the tokens so far, added up in half precision, in place of logits."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        return (input_ids + 1)[..., None].expand(logits.shape).to(torch.float16).cumsum(1), cache


def make_half_sum_gpt() -> PlainDecoder:
    """Build the tiny GPT that ends with a sum in half precision."""
    return PlainDecoder(HalfSumDecoder(make_tiny_gpt().model.gpt))


def compare_types(path: Any, make: "Callable[[], Any]") -> "list[Discrepancy]":
    """Compare as every decoder, once the file is seen to have the type of eager: a comparison goes by numbers alone.

    Args:
        path: a file, or another exporter's program, whose types are its own.
        make: makes the decoder anew.

    Raises:
        ExportCompatError: the file has another type.
    """
    if isinstance(path, Path):
        import onnxruntime

        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        found = session.get_outputs()[0].type
        if found != _WANTED:
            raise ExportCompatError(f"the first output is {found}, and {_WANTED} in eager")
    return compare_decoder(path, make)
