"""The decoder of an encoder-decoder as one module, for its first call and for the later ones; it imports torch."""

from ._encoder_mask import encoder_attention_mask
from ._text_decoder import TextDecoder

__all__ = [
    "TextDecoder",
    "encoder_attention_mask",
]
