"""CANINE, which takes characters and begins with chunks of 128 of them."""

from typing import Any

from ._encoder_models import TextEncoder


class CharacterEncoder(TextEncoder):
    """An encoder that takes four characters at least; the longest texts end in a chunk that is all padding."""

    traced = (2, 15)
    shapes: Any = ((1, 4), (1, 16), (3, 70), (3, 128), (2, 129), (1, 256), (5, 390))


def make_canine() -> CharacterEncoder:
    """Build CANINE."""
    from transformers import CanineConfig, CanineModel

    config = CanineConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        initializer_range=0.2,
        num_hash_buckets=512,
        max_position_embeddings=512,
    )
    return CharacterEncoder(CanineModel(config))
