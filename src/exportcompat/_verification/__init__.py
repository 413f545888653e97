"""Does a file do what eager does? The file with ONNX Runtime, the decoder in it, and calls that compare the two."""

from ._contract import Contract, contract_of
from ._discrepancy import Discrepancies, Discrepancy, measure
from ._onnx_decoder import (
    CACHE_AXES,
    LOGITS,
    MASK_AXES,
    PAST,
    PAST_ARGUMENT,
    PRESENT,
    TOKEN_AXES,
    OnnxDecoder,
    cache_names,
    dotted,
    present_name,
)
from ._onnx_file import PREFIX, OnnxFile, matched, placed
from ._schedules import Schedule, compare, decoder_schedules, run, same_tokens

__all__ = [
    "CACHE_AXES",
    "LOGITS",
    "MASK_AXES",
    "PAST",
    "PAST_ARGUMENT",
    "PREFIX",
    "PRESENT",
    "TOKEN_AXES",
    "Contract",
    "Discrepancies",
    "Discrepancy",
    "OnnxDecoder",
    "OnnxFile",
    "Schedule",
    "cache_names",
    "compare",
    "contract_of",
    "decoder_schedules",
    "dotted",
    "matched",
    "measure",
    "placed",
    "present_name",
    "run",
    "same_tokens",
]
