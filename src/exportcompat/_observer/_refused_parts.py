"""Parts of a model that cannot be observed and exported as they are, and what to observe instead."""

from collections.abc import Collection, Mapping
from typing import Any

from exportcompat.patches.toolkit.cache_names import cache_name
from exportcompat.registry import ExportCompatError

_CROSS_ATTENTION = ("encoder_attn", "crossattention", "EncDecAttention", "encoder_decoder_attention", "cross_attn")
"""Names of the modules by which a decoder attends to the states of an encoder."""


def check_part(model: Any, parameters: Collection[str], calls: int) -> None:
    """Refuse the decoder of an encoder-decoder, unless it can generate by itself, as `BartForCausalLM` can.

    Its first call computes keys and values of the encoder's states, and the later ones take them from the cache; which
    of the two it does is a branch in Python, so a graph of it does one of them in every call.

    Args:
        model: an `nn.Module`.
        parameters: the names of those of the method.
        calls: how many calls were to be stored; the message repeats it.

    Raises:
        ExportCompatError: it is one; the message has the line to write instead.
    """
    can_generate = getattr(model, "can_generate", None)
    if _is_plain_decoder(model, parameters) and not (can_generate and can_generate()):
        raise _refusal(model, f", store_n_calls={calls}")


def check_call(model: Any, parameters: Collection[str], arguments: Mapping[str, Any]) -> None:
    """Refuse a call of such a decoder that has states of an encoder, also where it can generate without them.

    Args:
        model: an `nn.Module`.
        parameters: the names of those of the method.
        arguments: those of the call, by name.

    Raises:
        ExportCompatError: it has; the message has the line to write instead.
    """
    has_cache = arguments.get("use_cache", True) is not False
    if arguments.get("encoder_hidden_states") is not None and has_cache and _is_plain_decoder(model, parameters):
        raise _refusal(model)


def _refusal(model: Any, options: str = "") -> ExportCompatError:
    return ExportCompatError(
        f"{type(model).__name__} is the decoder of an encoder-decoder: its first call computes keys of the encoder's "
        "states and the later ones have them in the cache, so that a graph of it is wrong for one or the other. With "
        "`model` for the whole encoder-decoder, write\n"
        "    from exportcompat import TextDecoder\n"
        "    decoder = TextDecoder(model)\n"
        f"    with observer(decoder{options}):\n"
        "and export `decoder`; for a graph without a cache, set `config.use_cache` of the decoder to False"
    )


def _is_plain_decoder(model: Any, parameters: Collection[str]) -> bool:
    config = getattr(model, "config", None)
    is_decoder = getattr(config, "is_decoder", False) or getattr(config, "is_encoder_decoder", False)
    if not is_decoder or not getattr(config, "use_cache", True) or "encoder_hidden_states" not in parameters:
        return False
    # A whole encoder-decoder has another interface.
    if not cache_name(parameters) or {"decoder_input_ids", "encoder_outputs"} & set(parameters):
        return False
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    return not names.isdisjoint(_CROSS_ATTENTION)
