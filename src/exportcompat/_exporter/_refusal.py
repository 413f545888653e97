"""What eager says of the sample that is traced, where the exporter has refused it."""

from typing import Any

from exportcompat._observer import (
    InputObserver,
    eager_refusal,
    first_line,
    refused_together,
    refused_where_asked,
    takes_one_token_alone,
)
from exportcompat._verification import PAST_ARGUMENT
from exportcompat.registry import ExportCompatError, NoCacheError

from ._quantized import Quantized, quantized_layers

_TEXT = ("input_ids", "inputs_embeds", "attention_mask", "position_ids", "token_type_ids", "encoder_", PAST_ARGUMENT)
"""Begin the names of inputs of a text. A sample of images has more places for them in its texts than images."""


def explained(error: Exception, model: Any, observer: InputObserver) -> ExportCompatError | None:
    """Return why a model is refused: what a spec says, or that it does not itself take what is traced; None for others.

    Some models go on by one token alone. A trace has several, since what it answers for one holds for one alone.

    Args:
        error: what the exporter has raised.
        model: what was exported.
        observer: its calls.
    """
    said = _said(error)
    if said is not None:
        return said
    quantized = quantized_layers(model)
    if quantized is not None and not isinstance(error, ExportCompatError):
        return _not_in_onnx(quantized, model, error)
    return None if isinstance(error, ExportCompatError) else _by_eager(model, observer)


def _by_eager(model: Any, observer: InputObserver) -> ExportCompatError | None:
    """Return what eager has against the sample, or against arguments of several calls in one; None for nothing."""
    names = observer.interface()[0]
    has_past = any(name.startswith(PAST_ARGUMENT) for name in names)
    if has_past and (apart := refused_together(observer)):
        return NoCacheError(f"{_name(model)} itself, in eager mode, refuses {apart.rstrip('.')}; one graph takes both")
    if not all(name.startswith(_TEXT) for name in names):
        return None
    observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    args, kwargs = observer.infer_arguments(as_args_kwargs=True)
    found = eager_refusal(model, lambda: model(*args, **kwargs))
    if found is None:
        return None
    what = "several tokens behind a past" if has_past else "the sample of several rows"
    reason = (
        f"{_name(model)} itself, in eager mode, does not take {what}, which a graph is traced with, so there "
        f"is nothing to be right with: {first_line(found).rstrip('.')}"
    )
    if not has_past:
        return ExportCompatError(f"{reason}.")
    # What else eager may have against the sample says nothing of the cache.
    return NoCacheError(reason) if takes_one_token_alone(observer) else refused_where_asked(reason)


def _name(model: Any) -> str:
    """Return the name of the class of a model; the decoder of an encoder-decoder has that of the whole model."""
    from exportcompat._encoder_decoder import TextDecoder

    is_part = isinstance(model, TextDecoder)
    return f"the decoder of {type(model.model).__name__}" if is_part else type(model).__name__


def _not_in_onnx(found: Quantized, model: Any, error: Exception) -> ExportCompatError:
    return ExportCompatError(
        f"{type(model).__name__} has quantized weights, {found}, which torch's exporter does not take: "
        f"{first_line(error)}. Export it in floating point: load it without quantization, or call model.dequantize(); "
        f"weights of 8 or 4 bits are made of that file by serve='cpu', weights='int8' (--serve cpu --weights int8)"
    )


def _said(error: BaseException | None) -> ExportCompatError | None:
    """Return the refusal of a spec, which torch's exporter wraps in errors of its own."""
    found = error
    while found is not None and not isinstance(found, ExportCompatError):
        found = found.__cause__ or found.__context__
    if found is None or found is error:
        return None
    return NoCacheError(*found.args) if isinstance(found, NoCacheError) else ExportCompatError(str(found))
