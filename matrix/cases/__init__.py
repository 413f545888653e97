"""The cases: reference models, each with what is special about its export. One file for each family of models."""

from ._case import Call, Case, call
from ._catalogue import CASES, chosen, family_of, find_case, parse_proof
from ._decoder import SEED, Decoder, PlainDecoder, Sample

__all__ = [
    "CASES",
    "SEED",
    "Call",
    "Case",
    "Decoder",
    "PlainDecoder",
    "Sample",
    "call",
    "chosen",
    "family_of",
    "find_case",
    "parse_proof",
]
