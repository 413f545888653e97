"""The cases: reference models, each with what is special about its export. One file for each family of models."""

from . import _by_torch_export as by_torch_export
from ._case import Call, Case, call
from ._catalogue import CASES, chosen, family_of, find_case, parse_proof
from ._decoder import SEED, Decoder, PlainDecoder, Sample
from ._flat_inputs import Interface, TensorProgram, interface_of, pytree_specs
from ._forward import Forward

__all__ = [
    "CASES",
    "SEED",
    "Call",
    "Case",
    "Decoder",
    "Forward",
    "Interface",
    "PlainDecoder",
    "Sample",
    "TensorProgram",
    "by_torch_export",
    "call",
    "chosen",
    "family_of",
    "find_case",
    "interface_of",
    "parse_proof",
    "pytree_specs",
]
