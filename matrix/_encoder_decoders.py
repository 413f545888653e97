"""Decoders of encoder-decoders: built from configurations, with random weights and random states of the encoder."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from exportcompat._tree import flatten

from ._decoders import Decoder, Sample, TransformersDecoder, generator

SIZES: Mapping[str, Any] = {"vocab_size": 128, "d_model": 32, "pad_token_id": 0, "eos_token_id": 2}
_BART = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "init_std": 0.2,
    "decoder_start_token_id": 2,
}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "Bart": {**_BART, "max_position_embeddings": 256},
    "T5": {"d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "initializer_factor": 1.0},
    "Whisper": {**_BART, "max_target_positions": 256, "num_mel_bins": 8, "bos_token_id": 1},
}
"""Settings by the prefix of the classes of a model of transformers."""

STATES = 7
"""Tokens of the encoder in a comparison."""


class TextDecoder(nn.Module):
    """Takes the states of the encoder instead of its inputs.

    Args:
        model: an encoder-decoder of transformers with a head.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        encoder_hidden_states: Tensor,
        encoder_attention_mask: Tensor,
        past_key_values: Any,
    ) -> tuple[Tensor, Any]:
        """Return the logits, `(batch, sequence, vocabulary)`, and the cache.

        Args:
            input_ids: `(batch, sequence)`, int64.
            attention_mask: `(batch, past + sequence)`, int64.
            encoder_hidden_states: `(batch, encoder_sequence, channels)`, float32, what the cache does not have yet.
            encoder_attention_mask: `(batch, past + encoder_sequence)`, int64.
            past_key_values: an `EncoderDecoderCache`.
        """
        # Whisper's encoder has no padding.
        masks = {} if self.inner.main_input_name == "input_features" else {"attention_mask": encoder_attention_mask}
        output = self.inner(
            encoder_outputs=(encoder_hidden_states,),
            decoder_input_ids=input_ids,
            decoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            use_cache=True,
            **masks,
        )
        return output.logits, output.past_key_values


def make_text_decoder(name: str) -> Decoder:
    """Build the decoder of an encoder-decoder.

    Args:
        name: a key of `SETTINGS`.
    """
    import transformers

    config = getattr(transformers, f"{name}Config")(**SIZES, **SETTINGS[name])
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    return PairDecoder(TextDecoder(model))


class PairDecoder(TransformersDecoder):
    """The decoder of an encoder-decoder: the first call has all states of the encoder, the later ones none."""

    _arguments = ("input_ids", "attention_mask", "encoder_hidden_states", "encoder_attention_mask")

    def tokens(self, sample: Sample) -> dict[str, Any]:
        states = self._states(sample.batch)
        known = 0 if sample.past is None else STATES - 3
        return {**super().tokens(sample), **_masked(states), "encoder_hidden_states": states[:, known:].clone()}

    def dynamic_shapes(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        axes = {
            "encoder_hidden_states": {0: "batch", 1: "encoder_sequence"},
            "encoder_attention_mask": {0: "batch", 1: "total_encoder_sequence"},
        }
        return {**super().dynamic_shapes(inputs), **axes}

    def cache_axes(self, cache: Any) -> Any:
        tree, _ = flatten(self.past_argument, cache)
        return tree.shapes(
            lambda path: {0: "batch", 2: "past_encoder_sequence" if "encoder" in path else "past_sequence"}
        )

    def cache(self, batch: int, past: int) -> Any:
        cache = self.empty_cache(batch)
        shape = (batch, 4, past, 8)
        return _filled(cache, shape, STATES - 3)

    def empty_cache(self, batch: int) -> Any:
        from transformers import DynamicCache
        from transformers.cache_utils import EncoderDecoderCache

        return EncoderDecoderCache(DynamicCache(), DynamicCache())

    def others(self, batch: int, past: int) -> Mapping[str, Any]:
        states = self._states(batch)
        return {**_masked(states), "encoder_hidden_states": states[:, STATES if past else 0 :].clone()}

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        batch = inputs["input_ids"].shape[0]
        cache = self.empty_cache(batch) if cache is None else cache
        with torch.no_grad():
            # Upstream takes no notice of the states once the cache is filled, but wants to have them.
            accepted = {**self._accepted(inputs), "encoder_hidden_states": self._states(batch)}
            return self.model(**accepted, past_key_values=cache)  # type: ignore[no-any-return]

    def _states(self, batch: int) -> Any:
        return torch.randn(batch, STATES, SIZES["d_model"], generator=generator())


def _masked(states: Any) -> dict[str, Any]:
    """Return the mask of the encoder: every second sequence has padding on the right."""
    mask = states.new_ones(states.shape[:2]).long()
    mask[::2, -2:] = 0
    return {"encoder_attention_mask": mask}


def _filled(cache: Any, shape: tuple[int, ...], length: int) -> Any:
    """Fill both parts of a cache with random keys and values."""
    for part, size in ((cache.self_attention_cache, shape[2]), (cache.cross_attention_cache, length)):
        for layer in range(2):
            leaves = [torch.randn(*shape[:2], size, shape[3], generator=generator()) for _ in range(2)]
            part.update(*leaves, layer)
    cache.is_updated = dict.fromkeys(range(2), True)
    return cache
