"""Encoders of sounds that see every second step alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from ._encoder_models import SoundEncoder
from .causal_lm import SIZES

_SETTINGS: Mapping[str, Any] = {
    **SIZES,
    # 10 samples and then 2 make one step, and two of those one state.
    "conv_dim": (16, 16),
    "conv_kernel": (10, 3),
    "conv_stride": (5, 2),
    "conv_bias": True,
    "feat_extract_norm": "layer",
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "squeeze_factor": 2,
    "mask_time_prob": 0.0,
    "mask_feature_prob": 0.0,
}


class SqueezedEncoder(SoundEncoder):
    """An encoder of sounds of 70 steps when it is traced, and then of even and odd numbers of them.

    From an odd number torch makes a graph that is right: only there does upstream add what it has lost.
    """

    traced: Any = (2, 710)
    shapes: Sequence[Any] = ((1, 400), (1, 1203), (3, 555), (3, 565), (5, 2000))

    def reference(self) -> "SqueezedEncoder":
        # In old releases (4.44) a weight is a product, which torch refuses to copy.
        copied = type(self.model)(self.model.config)
        copied.load_state_dict(self.model.state_dict())
        return type(self)(copied.eval())


def make_sew() -> SqueezedEncoder:
    """Build SEW."""
    from transformers import SEWConfig, SEWModel

    return SqueezedEncoder(SEWModel(SEWConfig(**_SETTINGS)))


def make_sew_d() -> SqueezedEncoder:
    """Build SEW-D, which knows places by how far they are from each other."""
    from transformers import SEWDConfig, SEWDModel

    return SqueezedEncoder(SEWDModel(SEWDConfig(**_SETTINGS, position_buckets=16)))
