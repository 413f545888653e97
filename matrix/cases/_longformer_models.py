"""Longformer and LED's encoder: a window around each token, and tokens that see all and are seen by all."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from exportcompat._verification import TOKEN_AXES

from ._encoder_decoder_models import make_encoder_decoder
from ._encoder_models import TextEncoder


class GlobalText(TextEncoder):
    """An encoder of texts with a mask of tokens with global attention; some texts have none, and some calls.

    Every second text has padding on the right, and the others have it on the left. The sample is a multiple of the
    window; the other lengths are below it, as long, and above it, with a remainder and without.
    """

    traced = (2, 16)
    shapes: Any = ((1, 1), (1, 3), (1, 8), (3, 5), (3, 16), (3, 30), (5, 71), (1, 128))
    axes: Mapping[str, Any] = {**TextEncoder.axes, "global_attention_mask": TOKEN_AXES}

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        batch, length = shape
        inputs = super().inputs(shape)
        mask = inputs["attention_mask"]
        mask[1::2, : length // 3] = 0
        inputs["input_ids"].masked_fill_(mask == 0, self.model.config.pad_token_id)
        # From none to two in seven tokens; a text alone has none if its length is a multiple of three.
        shares = (torch.arange(batch)[:, None] + length) % 3
        return {**inputs, "global_attention_mask": (torch.arange(length) % 7 < shares).long()}


class PaddedGlobalText(GlobalText):
    """The same with a sample that is no multiple of the window."""

    traced = (2, 11)


class WatchedText(GlobalText):
    """The same with the probabilities of attention; each call has a text with global attention."""

    outputs = ("last_hidden_state", "attentions", "global_attentions")
    shapes: Any = ((1, 1), (2, 8), (3, 16), (3, 30), (5, 71))

    def results(self, output: Any) -> Sequence[Any]:
        return [output[name] if name == self.outputs[0] else output[name][0] for name in self.outputs]


def make_longformer() -> GlobalText:
    """Build Longformer."""
    return GlobalText(_longformer(attention_window=[4, 8], num_hidden_layers=2))


def make_longformer_attentions() -> WatchedText:
    """Build Longformer with a layer whose probabilities of attention are results."""
    return WatchedText(_longformer(attention_window=[4], num_hidden_layers=1, output_attentions=True))


def make_led_encoder() -> GlobalText:
    """Build LED's encoder."""
    return PaddedGlobalText(make_encoder_decoder("LED").get_encoder())


def _longformer(**settings: Any) -> Any:
    from transformers import LongformerConfig, LongformerModel

    config = LongformerConfig(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        max_position_embeddings=256,
        initializer_range=0.2,
        **settings,
    )
    return LongformerModel(config, add_pooling_layer=False)
