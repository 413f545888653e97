"""The cases: reference models, each with what is special about its export."""

from ._catalogue import CASES, Case, chosen, find_case, parse_proof
from ._causal_lm_models import SETTINGS, SIZES
from ._decoder import Decoder, PlainDecoder, Sample

__all__ = [
    "CASES",
    "SETTINGS",
    "SIZES",
    "Case",
    "Decoder",
    "PlainDecoder",
    "Sample",
    "chosen",
    "find_case",
    "parse_proof",
]
