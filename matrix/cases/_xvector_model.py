"""A head that knows voices, for sounds of several lengths."""

from collections.abc import Sequence
from typing import Any

from ._encoder_models import SoundEncoder
from .causal_lm import SIZES


class Voices(SoundEncoder):
    """WavLM with its head; a shape is `(batch, samples)`, and every second sound is shorter than the others."""

    outputs: Sequence[str] = ("logits", "embeddings")


def make_wavlm_voices() -> Voices:
    """Build WavLM, with 10 samples and then 2 for a state."""
    from transformers import WavLMConfig, WavLMForXVector

    settings: dict[str, Any] = {
        **SIZES,
        "conv_dim": (16, 16),
        "conv_kernel": (10, 3),
        "conv_stride": (5, 2),
        "feat_extract_norm": "layer",
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
        "mask_time_prob": 0.0,
        "tdnn_dim": (24, 24, 24),
        "tdnn_kernel": (5, 3, 1),
        "tdnn_dilation": (1, 2, 1),
        "xvector_output_dim": 16,
    }
    return Voices(WavLMForXVector(WavLMConfig(**settings)).eval())
