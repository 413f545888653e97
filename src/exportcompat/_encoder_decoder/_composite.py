"""The decoder of two models that were joined, such as a vision transformer and GPT-2.

`VisionEncoderDecoderModel`, `SpeechEncoderDecoderModel` and `EncoderDecoderModel` of transformers have an encoder and a
decoder of any two kinds. For images they pass on no mask, and the decoder then makes one that is as long as the states
of the call; those in the cache have no place in it.
"""

import inspect
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from exportcompat._verification import PAST_ARGUMENT
from exportcompat.patches.toolkit.cache_names import cache_name


def is_composite(model: nn.Module) -> bool:
    """Say whether the decoder of an encoder-decoder is a model of another kind, whose code stands elsewhere."""
    return hasattr(model, "encoder") and type(decoder_of(model)).__module__ != type(model).__module__


def decoder_of(model: nn.Module) -> nn.Module:
    """Return the decoder of two models that were joined, or the model itself."""
    return getattr(model, "decoder", model)


@dataclass(frozen=True, kw_only=True)
class DecoderCall:
    """What a decoder is given in a call.

    Attributes:
        tokens: its arguments that have to do with its text.
        states: of the encoder, `(batch, new states, channels)`: those that the cache does not have.
        mask: `(batch, length)`, int64; None if there is no padding.
        past: the cache, in the form that the decoder takes; None where it makes one, or has none.
        length: the number of states that the decoder attends to, new ones and those in the cache.
        use_cache: have it make a cache.
    """

    tokens: dict[str, Any]
    states: Tensor
    mask: Tensor | None
    length: Any
    past: Any = None
    use_cache: bool = True


def call_decoder(model: Any, call: DecoderCall) -> Any:
    """Return what the decoder of two models that were joined returns."""
    project = getattr(model, "enc_to_dec_proj", None)
    # GPT-2 joins the batch with the sequence, which a part of the states does not allow where it lies.
    states = call.states.contiguous()
    return model.decoder(
        **call.tokens,
        encoder_hidden_states=states if project is None else project(states),
        encoder_attention_mask=states.new_ones(states.shape[0], call.length).long() if call.mask is None else call.mask,
        **as_cache(model.decoder, call.past),
        use_cache=call.use_cache,
    )


def as_cache(model: nn.Module, past: Any) -> dict[str, Any]:
    """Return a cache under the name that `forward` has for it."""
    return {cache_name(inspect.signature(model.forward).parameters) or PAST_ARGUMENT: past}
