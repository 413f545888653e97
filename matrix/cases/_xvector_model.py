"""Heads that know voices, for sounds of several lengths."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import generator
from ._encoder_models import SoundEncoder
from .causal_lm import SIZES

_SETTINGS: dict[str, Any] = {
    **SIZES,
    # 10 samples and then 2 make a state.
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
_FEATURES = 12
"""Of a moment of a sound, where a model takes no samples."""


class Voices(SoundEncoder):
    """A model with its head; a shape is `(batch, samples)`, and every second sound is shorter than the others."""

    outputs: Sequence[str] = ("logits", "embeddings")


class VoicesOfFeatures(Voices):
    """One that takes features of moments; a shape is `(batch, moments)`."""

    traced: Any = (2, 70)
    shapes: Sequence[Any] = ((1, 40), (1, 123), (3, 55), (5, 200))
    axes: Mapping[str, Any] = {name: {0: "batch", 1: "moments"} for name in ("input_features", "attention_mask")}

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        mask = super().inputs(shape)["attention_mask"]
        return {
            "input_features": torch.randn(*shape, _FEATURES, generator=generator()),
            "attention_mask": mask,
        }


def make_voices(prefix: str) -> Voices:
    """Build a model by the prefix of its classes, such as `WavLM`."""
    import transformers

    takes_features = prefix == "Wav2Vec2Bert"
    more = {"feature_projection_input_dim": _FEATURES, "max_source_positions": 300} if takes_features else {}
    config = getattr(transformers, f"{prefix}Config")(**_SETTINGS, **more)
    made = getattr(transformers, f"{prefix}ForXVector")(config).eval()
    return (VoicesOfFeatures if takes_features else Voices)(made)
