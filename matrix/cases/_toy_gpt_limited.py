"""A variant of the tiny GPT with another answer for long texts, which a graph does not have."""

import warnings
from collections.abc import Collection
from pathlib import Path

import torch
from torch import Tensor

from exportcompat import AssumptionWarning
from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache
from exportcompat.registry import ExportCompatError

from ._decoder import Decoder, PlainDecoder, Sample
from ._toy_gpt_models import make_tiny_gpt

_LIMIT = 1000
"""More tokens than any call that is compared has, so that the file is right there."""


class LimitedDecoder(GPTDecoder):
    """Halves its logits beyond a number of tokens."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        if input_ids.shape[1] > _LIMIT:
            logits = logits / 2
        return logits, cache


def make_limited_gpt() -> PlainDecoder:
    """Build the tiny GPT that halves the logits of long texts."""
    return PlainDecoder(LimitedDecoder(make_tiny_gpt().model.gpt))


def capture_told(decoder: Decoder, path: Path, _: Collection[str]) -> None:
    """Capture by `torch.export` first, and export then; the capture must tell that there is a limit.

    Args:
        decoder: the model with its calls.
        path: the file.

    Raises:
        ExportCompatError: the capture does not tell it.
    """
    inputs = decoder.sample(Sample())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        shapes = decoder.dynamic_shapes(inputs)
        torch.export.export(decoder.model, (), kwargs=inputs, dynamic_shapes=_unnamed(shapes), strict=False)
    _insist(told, f"<= {_LIMIT}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _export(decoder, path)


def export_told(decoder: Decoder, path: Path, _: Collection[str]) -> None:
    """Export by `torch.onnx.export`, which must tell the limit in terms of the axes of the file.

    Args:
        decoder: the model with its calls.
        path: the file.

    Raises:
        ExportCompatError: the export does not tell it.
    """
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _export(decoder, path)
    _insist(told, f"sequence <= {_LIMIT}")


def _export(decoder: Decoder, path: Path) -> None:
    inputs = decoder.sample(Sample())
    names = decoder.names(inputs)
    torch.onnx.export(
        decoder.model,
        (),
        str(path),
        kwargs=inputs,
        dynamic_shapes=decoder.dynamic_shapes(inputs),
        input_names=names[0],
        output_names=names[1],
        dynamo=True,
        verbose=False,
    )


def _insist(told: list[warnings.WarningMessage], condition: str) -> None:
    found = [str(item.message) for item in told if issubclass(item.category, AssumptionWarning)]
    if not any(condition in text for text in found):
        raise ExportCompatError(f"no warning of this export says {condition!r}; warnings: {found}; see the two specs")


def _unnamed(shapes: object) -> object:
    """Return dynamic shapes with `Dim.DYNAMIC` for each name, which only the ONNX exporter takes."""
    from torch.utils import _pytree as pytree

    return pytree.tree_map(lambda axis: torch.export.Dim.DYNAMIC if isinstance(axis, str) else axis, shapes)
