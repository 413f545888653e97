"""Models of texts that are exported for whole texts, without a cache; most say by a token what is padding."""

from collections.abc import Mapping
from typing import Any

import torch

from exportcompat._verification import TOKEN_AXES

from ._decoder import Sample, generator
from ._encoder_models import TextEncoder
from ._forward import Forward

_XLM: Mapping[str, Any] = {
    "vocab_size": 128,
    "emb_dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "max_position_embeddings": 256,
    "init_std": 0.2,
    "embed_init_std": 0.2,
}


class WholeText(Forward):
    """A model of whole texts; a shape is `(batch, sequence)`, and every second text is shorter.

    Args:
        model: the module.
        padding: the token that is padding.
        before: padding stands before a text, not behind it.
    """

    traced = (2, 7)
    shapes = ((1, 1), (1, 12), (3, 5), (3, 70), (5, 128))
    axes: Mapping[str, Any] = {"input_ids": TOKEN_AXES}
    outputs = ("logits",)

    def __init__(self, model: Any, padding: int = 0, *, before: bool = False) -> None:
        super().__init__(model)
        self._padding, self._before = padding, before

    def shape_of(self, sample: Sample) -> tuple[int, int]:
        return self.traced if sample == Sample() else (sample.batch, sample.new)

    def reference(self) -> "WholeText":
        return self

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        tokens = torch.randint(3, 128, shape, generator=generator())
        count = shape[1] // 3
        place = slice(count) if self._before else slice(shape[1] - count, None)
        tokens[1::2, place] = self._padding
        return {"input_ids": tokens}


def make_xlm() -> WholeText:
    """Build XLM."""
    from transformers import XLMConfig, XLMWithLMHeadModel

    return WholeText(XLMWithLMHeadModel(XLMConfig(**_XLM)), 2)


def make_flaubert() -> WholeText:
    """Build FlauBERT."""
    from transformers import FlaubertConfig, FlaubertWithLMHeadModel

    return WholeText(FlaubertWithLMHeadModel(FlaubertConfig(**_XLM)), 2)


def make_cpmant() -> WholeText:
    """Build CPM-Ant, whose prompt has 8 tokens."""
    from transformers import CpmAntConfig, CpmAntForCausalLM

    config = CpmAntConfig(
        vocab_size=128,
        hidden_size=32,
        num_attention_heads=4,
        dim_head=8,
        dim_ff=64,
        num_hidden_layers=2,
        prompt_types=4,
        prompt_length=8,
        init_std=0.2,
        use_cache=False,
    )
    return WholeText(CpmAntForCausalLM(config), before=True)


class MaskedText(TextEncoder):
    """A model of whole texts with a mask, which gives logits."""

    outputs = ("logits",)


def make_prophetnet() -> MaskedText:
    """Build ProphetNet's decoder, with a stream for the next token and one for that behind it."""
    from transformers import ProphetNetConfig, ProphetNetForCausalLM

    config = ProphetNetConfig(
        vocab_size=128,
        hidden_size=32,
        decoder_ffn_dim=64,
        encoder_ffn_dim=64,
        num_decoder_layers=2,
        num_encoder_layers=2,
        num_decoder_attention_heads=4,
        num_encoder_attention_heads=4,
        max_position_embeddings=256,
        init_std=0.2,
        use_cache=False,
    )
    return MaskedText(ProphetNetForCausalLM(config))
