"""Encoder-decoders in two parts: built from configurations, with random weights and random states of the encoder."""

from collections.abc import Mapping
from typing import Any

import torch

from exportcompat import TextDecoder
from exportcompat._encoder_decoder import encoder_attention_mask
from exportcompat._observer import flatten

from ._decoder import Decoder, Sample, TransformersDecoder, generator
from ._encoder_models import TextEncoder
from ._forward import Forward

SIZES: Mapping[str, Any] = {
    "vocab_size": 128,
    "d_model": 32,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
_BART = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "init_std": 0.2,
}
_T5 = {"d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "initializer_factor": 1.0}
_GEMMA = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "query_pre_attn_scalar": 8,
    "initializer_range": 0.2,
    "sliding_window": 16,
}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "Bart": {**_BART, "max_position_embeddings": 256},
    "Marian": {**_BART, "max_position_embeddings": 256},
    "PLBart": {**_BART, "max_position_embeddings": 256},
    "MBart": {**_BART, "max_position_embeddings": 256},
    "T5": _T5,
    "SwitchTransformers": {
        **_T5,
        "num_decoder_layers": 2,
        "num_experts": 4,
        "num_sparse_encoder_layers": 1,
        "num_sparse_decoder_layers": 1,
    },
    "NllbMoe": {
        **_BART,
        "max_position_embeddings": 256,
        "num_experts": 4,
        "encoder_sparse_step": 2,
        "decoder_sparse_step": 2,
    },
    "LED": {
        **_BART,
        "attention_window": [4, 8],
        "max_encoder_position_embeddings": 256,
        "max_decoder_position_embeddings": 256,
    },
    "T5Gemma": {"encoder": _GEMMA, "decoder": {**_GEMMA, "cross_attention_hidden_size": 32}},
    # Comparisons go beyond the positions that it is built with.
    "M2M100": {**_BART, "max_position_embeddings": 16},
    "Speech2Text": {
        **_BART,
        "max_source_positions": 50,
        "max_target_positions": 256,
        "input_feat_per_channel": 8,
        "conv_channels": 16,
    },
    "Whisper": {
        **_BART,
        "max_source_positions": 50,
        "max_target_positions": 256,
        "num_mel_bins": 8,
        "bos_token_id": 1,
        "suppress_tokens": None,
        "begin_suppress_tokens": None,
    },
}
"""Settings by the prefix of the classes of a model of transformers."""

STATES = 7
"""Tokens of the encoder in a comparison."""


def make_encoder_decoder(name: str) -> Any:
    """Build an encoder-decoder with a head, in evaluation mode.

    Args:
        name: a key of `SETTINGS`.
    """
    import transformers

    config = getattr(transformers, f"{name}Config")(**SIZES, **SETTINGS[name])
    head = "MTModel" if name == "Marian" else "ForConditionalGeneration"
    return getattr(transformers, f"{name}{head}")(config).eval()


def make_text_decoder(name: str) -> Decoder:
    """Build the decoder of an encoder-decoder.

    Args:
        name: a key of `SETTINGS`.
    """
    return MergedDecoder(TextDecoder(make_encoder_decoder(name)))


def make_states_encoder(name: str) -> Forward:
    """Build the encoder of an encoder-decoder.

    Args:
        name: a key of `SETTINGS`.
    """
    return (MelEncoder if name == "Whisper" else TextEncoder)(make_encoder_decoder(name).get_encoder())


class MelEncoder(Forward):
    """Whisper's encoder; a shape is `(batch,)`, because it takes sounds of 30 seconds and nothing else."""

    traced: Any = (2,)
    shapes = ((1,), (3,), (5,))
    axes: Mapping[str, Any] = {"input_features": {0: "batch"}}

    def inputs(self, shape: tuple[int]) -> dict[str, Any]:
        config = self.model.config
        size = (*shape, config.num_mel_bins, 2 * config.max_source_positions)
        return {"input_features": torch.randn(size, generator=generator())}


class MergedDecoder(TransformersDecoder):
    """The decoder of an encoder-decoder: every call has all states of the encoder, as `generate` passes them."""

    _arguments = ("input_ids", "attention_mask", "encoder_hidden_states", "encoder_attention_mask")

    def tokens(self, sample: Sample) -> dict[str, Any]:
        return self._accepted({**super().tokens(sample), **self.others(sample.batch, 0)})

    def dynamic_shapes(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        axes = {
            "encoder_hidden_states": {0: "batch", 1: "encoder_sequence"},
            "encoder_attention_mask": {0: "batch", 1: "total_encoder_sequence"},
        }
        shapes = super().dynamic_shapes(inputs)
        return {**shapes, **{name: axis for name, axis in axes.items() if name in inputs}}

    def cache_axes(self, cache: Any) -> Any:
        tree, _ = flatten(self.past_argument, cache)
        return tree.shapes(
            lambda path: {0: "batch", 2: "past_encoder_sequence" if "encoder" in path else "past_sequence"}
        )

    def cache(self, batch: int, past: int) -> Any:
        # No call has a part of the states in its cache; the traced one has, so that no size in it is 0.
        return _filled(self.empty_cache(batch), (batch, 4, past, 8), STATES - 3)

    def empty_cache(self, batch: int) -> Any:
        from transformers import DynamicCache
        from transformers.cache_utils import EncoderDecoderCache

        return EncoderDecoderCache(DynamicCache(), DynamicCache())

    def others(self, batch: int, past: int) -> Mapping[str, Any]:
        states = torch.randn(batch, STATES, self._channels, generator=generator())
        # Whisper and images have none.
        has_mask = encoder_attention_mask(self.model.model, (states,), None) is not None
        return {"encoder_hidden_states": states, **(_masked(states) if has_mask else {})}

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        with torch.no_grad():
            output = self.model(**self._accepted(inputs), past_key_values=cache)
        return output["logits"], output["past_key_values"]

    @property
    def _channels(self) -> int:
        """The size of a state of the encoder."""
        return int(SIZES["d_model"])


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
