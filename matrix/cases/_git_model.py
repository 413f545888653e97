"""GIT, called with texts alone: its mask is made from the cache, of which a sample is empty or filled."""

from typing import Any

from ._decoder import TransformersDecoder


def make_git() -> TransformersDecoder:
    """Build GIT with a small vision encoder, which no call uses."""
    from transformers import GitConfig, GitForCausalLM

    vision: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    config = GitConfig(
        vision_config={**vision, "num_attention_heads": 4, "image_size": 16, "patch_size": 8},
        vocab_size=128,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        initializer_range=0.2,
    )
    return TransformersDecoder(GitForCausalLM(config))
