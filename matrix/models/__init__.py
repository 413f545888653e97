"""Models that are not from transformers: any model can be exported, and measured. Importing them imports torch."""

from ._decoder import GPTDecoder

__all__ = [
    "GPTDecoder",
]
