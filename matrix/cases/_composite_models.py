"""Two models that were joined: an encoder of images or texts, and a decoder of another kind with cross-attention."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch

from exportcompat import TextDecoder

from ._decoder import Decoder
from ._encoder_decoder_models import MergedDecoder

_SIZES: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.2,
}
_TEXT: Mapping[str, Any] = {**_SIZES, "vocab_size": 128, "max_position_embeddings": 256}
_IMAGE: Mapping[str, Any] = {**_SIZES, "image_size": 32, "patch_size": 8}
_ENDS: Mapping[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_CROSS: Mapping[str, Any] = {"is_decoder": True, "add_cross_attention": True, **_ENDS}
_TROCR: Mapping[str, Any] = {
    "vocab_size": 128,
    "d_model": 32,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 256,
    "cross_attention_hidden_size": 32,
    "init_std": 0.2,
}
_GPT2: Mapping[str, Any] = {
    "vocab_size": 128,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 256,
    "initializer_range": 0.2,
}

Half = tuple[str, Mapping[str, Any]]
"""The prefix of the classes of a model, and its settings."""

SETTINGS: Mapping[str, tuple[str, Half, Half]] = {
    "trocr": ("VisionEncoderDecoder", ("DeiT", _IMAGE), ("TrOCR", {**_TROCR, **_CROSS})),
    # Its encoder is wider than its decoder, so the states go through a projection that joins them.
    "gpt2": ("VisionEncoderDecoder", ("ViT", {**_IMAGE, "hidden_size": 48}), ("GPT2", {**_GPT2, **_CROSS})),
    "bert": ("EncoderDecoder", ("Bert", _TEXT), ("Bert", {**_TEXT, **_CROSS})),
}
"""The classes that join two models, the encoder and the decoder, by the name of the decoder."""


def make_composite(name: str) -> Any:
    """Build two models that were joined, in evaluation mode.

    Args:
        name: a key of `SETTINGS`.
    """
    import transformers

    prefix, *halves = SETTINGS[name]
    encoder, decoder = (getattr(transformers, f"{half}Config")(**settings) for half, settings in halves)
    config = getattr(transformers, f"{prefix}Config").from_encoder_decoder_configs(encoder, decoder)
    config.update({"decoder_start_token_id": _ENDS["bos_token_id"], **_ENDS})
    return getattr(transformers, f"{prefix}Model")(config).eval()


def make_composite_decoder(name: str) -> Decoder:
    """Build the decoder of two models that were joined.

    Args:
        name: a key of `SETTINGS`.
    """
    return CompositeDecoder(TextDecoder(make_composite(name)))


class CompositeDecoder(MergedDecoder):
    """The decoder of two models that were joined."""

    def cache(self, batch: int, past: int) -> Any:
        from transformers import DynamicCache
        from transformers.cache_utils import EncoderDecoderCache

        filled = super().cache(batch, past)
        return filled if self._keeps_states else EncoderDecoderCache(filled.self_attention_cache, DynamicCache())

    @property
    def _channels(self) -> int:
        return int(self.model.config.encoder.hidden_size)

    @cached_property
    def _keeps_states(self) -> bool:
        """GPT-2 to 4.51 has no keys and values of the states in its cache; it computes them in every call."""
        tokens = {"input_ids": torch.ones(1, 1).long(), "attention_mask": torch.ones(1, 1).long()}
        _, cache = self({**tokens, **self.others(1, 0)}, self.empty_cache(1))
        return bool(cache.cross_attention_cache.get_seq_length())
