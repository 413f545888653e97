"""The decoder of an encoder-decoder as a module of its own, which one graph can hold."""

import sys
from collections.abc import Mapping
from inspect import signature
from typing import Any

from torch import Tensor, nn

from exportcompat.patches.toolkit.cache_names import cache_of
from exportcompat.patches.toolkit.tracing import is_traced
from exportcompat.registry import ExportCompatError

from ._composite import DecoderCall, as_cache, call_decoder, decoder_of, is_composite
from ._encoder_mask import encoder_attention_mask, shortening, taken_as_it_is

_RANK = 3
"""Of the states of an encoder: `(batch, sequence, channels)`."""


class _States(tuple[Tensor]):  # noqa: SLOT001 (its mask is an attribute, as a tuple can have no other element)
    """What an encoder has returned: a tuple, as some models take it, with attributes, which others hand on."""

    attention_mask: Tensor | None = None
    hidden_states = attentions = router_logits = router_probs = None

    @property
    def last_hidden_state(self) -> Tensor:
        """The states, `(batch, sequence, channels)`."""
        return self[0]


class TextDecoder(nn.Module):  # type: ignore[misc,unused-ignore]
    """The decoder of an encoder-decoder with a head: it takes the states of the encoder instead of its inputs.

    Upstream has one graph for the first call, which computes keys and values of the states, and another for the later
    ones, which ignores the states. Here a call computes those of the states that the cache does not have yet, so one
    graph does both. A call may have all states, as `generate` and optimum hand them over, or, once the cache has them,
    none (length 0).

    An `InputObserver` of this module watches the whole model, and stores what the decoder is given:

    >>> decoder = TextDecoder(model)
    >>> states, tokens = InputObserver(), InputObserver()
    >>> with apply_patches(), states(model.get_encoder()), tokens(decoder):
    ...     model.generate(**inputs)

    Args:
        model: an encoder-decoder of transformers, such as `WhisperForConditionalGeneration`.

    Raises:
        ExportCompatError: the model is of another kind.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        name = type(model).__name__
        if not getattr(getattr(model, "config", None), "is_encoder_decoder", False):
            raise ExportCompatError(
                f"{name} is no encoder-decoder of transformers; observe and export the model itself"
            )
        self.model = model
        self._has_tuples = _has_tuples(model)
        self._shortening = shortening(model)
        # Switch to 4.57 takes the routers of its encoder apart by default, and a graph has the states alone.
        has_routers = "output_router_logits" in signature(model.forward).parameters
        self._without = {"output_router_logits": False} if has_routers else {}
        self.training = model.training

    @property
    def config(self) -> Any:
        """The configuration of the model."""
        return self.model.config

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        encoder_hidden_states: Tensor,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: Any = None,
    ) -> dict[str, Any]:
        """Return the logits, `(batch, sequence, vocabulary)`, and the cache, as `logits` and `past_key_values`.

        Args:
            input_ids: `(batch, sequence)`, int64.
            attention_mask: `(batch, past + sequence)`, int64.
            encoder_hidden_states: `(batch, encoder_sequence, channels)`, float32.
            encoder_attention_mask: `(batch, encoder_sequence)`, int64; None for an encoder without padding.
            past_key_values: an `EncoderDecoderCache`; None for an empty one.
        """
        cache = _empty_cache() if past_key_values is None else past_key_values
        cached = cache.cross_attention_cache.get_seq_length()
        states = _unknown(encoder_hidden_states, cached)
        new = _reused(states, cached) if self._has_tuples else states
        past = _tuples(cache) if self._has_tuples else cache
        # In a graph the sum of both lengths is known to be that of the keys; eager reads one or the other.
        length = cached + states.shape[1] if is_traced(states) else cached or states.shape[1]
        tokens = {"input_ids": input_ids, "attention_mask": attention_mask}
        call = DecoderCall(tokens=tokens, states=new, mask=encoder_attention_mask, length=length, past=past)
        return self.results(self._called(call))

    def _called(self, call: DecoderCall) -> Any:
        """Return what the model returns."""
        if is_composite(self.model):
            return call_decoder(self.model, call)
        masks = {} if call.mask is None else {"attention_mask": call.mask}
        outputs = _States([call.states])
        outputs.attention_mask = call.mask
        with taken_as_it_is(self._shortening):
            return self.model(
                encoder_outputs=outputs,
                **{f"decoder_{name}": value for name, value in call.tokens.items()},
                **as_cache(self.model, call.past),
                use_cache=call.use_cache,
                **self._without,
                **masks,
            )

    def results(self, output: Any) -> dict[str, Any]:
        """Return what the decoder returns for an output of the model."""
        return {"logits": output.logits, "past_key_values": _cache(cache_of(output))}

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the decoder is given in a call of the model.

        Raises:
            ExportCompatError: the call has no states of an encoder, or has padded sounds; the states are no sequence.
        """
        if given.get("encoder_outputs") is None or given.get("decoder_input_ids") is None:
            raise ExportCompatError(
                "the decoder was called without encoder_outputs or decoder_input_ids; observe `model.generate`"
            )
        states = given["encoder_outputs"][0]
        if states.dim() != _RANK:
            raise ExportCompatError(
                f"the encoder of {type(self.model).__name__} returns {tuple(states.shape)}, and a decoder's file takes "
                "states of the shape (batch, sequence, channels); export the encoder by itself, and forward for whole "
                "texts with generate=False and decoder_input_ids"
            )
        return {
            "input_ids": given["decoder_input_ids"],
            "attention_mask": given.get("decoder_attention_mask"),
            "encoder_hidden_states": states,
            "encoder_attention_mask": encoder_attention_mask(
                self.model, given["encoder_outputs"], given.get("attention_mask")
            ),
            "past_key_values": _cache(cache_of(given)),
        }


class WholeTextDecoder(TextDecoder):
    """A `TextDecoder` without a cache, for models whose cache no graph can have: each call has the whole text."""

    def forward(  # type: ignore[override,unused-ignore]
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
    ) -> dict[str, Any]:
        """Return the logits of every token, `(batch, sequence, vocabulary)`, as `logits`.

        Args:
            input_ids: `(batch, sequence)`, int64.
            attention_mask: `(batch, sequence)`, int64; None where nothing is padded.
            encoder_hidden_states: `(batch, encoder_sequence, channels)`, float32.
            encoder_attention_mask: `(batch, encoder_sequence)`, int64; None for an encoder without padding.
        """
        if encoder_hidden_states is None:
            raise ExportCompatError(
                "the decoder is called without encoder_hidden_states; give what the encoder returns"
            )
        call = DecoderCall(
            tokens={"input_ids": input_ids, "attention_mask": attention_mask},
            states=encoder_hidden_states,
            mask=encoder_attention_mask,
            length=encoder_hidden_states.shape[1],
            use_cache=False,
        )
        return self.results(self._called(call))

    def results(self, output: Any) -> dict[str, Any]:
        """Return what the decoder returns for an output of the model."""
        return {"logits": output.logits}


def _has_tuples(model: nn.Module) -> bool:
    """Say whether the decoder has tuples for a cache: nothing in it knows the class."""
    sources = {type(module).__module__ for module in decoder_of(model).modules()}
    return not any(hasattr(sys.modules.get(source), "EncoderDecoderCache") for source in sources)


def _unknown(states: Tensor, cached: Any) -> Tensor:
    """Return the states that the cache does not have; all of them in eager mode, where upstream ignores them."""
    if not is_traced(states):
        return states
    # Not every backend has the functions of symbolic sizes, by which a length could be computed.
    return states[:, cached:]


def _reused(states: Tensor, cached: int) -> Tensor:
    """Return states of the length that eager code of the era of tuples looks at, if the call has none."""
    if is_traced(states) or states.shape[1] or not cached:
        return states
    return states.new_zeros(states.shape[0], cached, states.shape[2])


def _tuples(cache: Any) -> Any:
    """Return a cache as upstream had it before `EncoderDecoderCache`: four tensors for each layer; None if empty."""
    return cache.to_legacy_cache() or None


def _cache(found: Any) -> Any:
    """Return what a model takes or gives as an `EncoderDecoderCache`."""
    from transformers.cache_utils import EncoderDecoderCache

    return EncoderDecoderCache.from_legacy_cache(found) if isinstance(found, tuple) else found


def _empty_cache() -> Any:
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    return EncoderDecoderCache(DynamicCache(), DynamicCache())
