"""The decoder of an encoder-decoder as one module, for its first call and for the later ones; it imports torch."""

from ._encoder_mask import encoder_attention_mask
from ._text_decoder import TextDecoder, WholeTextDecoder
from ._whole_encoder import WholeEncoder

__all__ = [
    "TextDecoder",
    "WholeEncoder",
    "WholeTextDecoder",
    "encoder_attention_mask",
]
