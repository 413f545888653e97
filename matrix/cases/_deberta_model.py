"""Encoders of texts that know how far tokens are from each other by buckets of distances."""

from ._encoder_models import TextEncoder
from .causal_lm import SIZES


def make_deberta_v2() -> TextEncoder:
    """Build DeBERTa-v2 as DeBERTa-v3 is configured: distances of more than 8 tokens share buckets."""
    from transformers import DebertaV2Config, DebertaV2Model

    distances = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16}
    own = {"norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False, "type_vocab_size": 0}
    return TextEncoder(DebertaV2Model(DebertaV2Config(**SIZES, **distances, **own)))
