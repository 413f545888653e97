"""Does a file do what eager does? The file with ONNX Runtime, the decoder in it, and calls that compare the two."""

from ._branched_file import FIRST, LATER, open_file
from ._contract import Contract, contract_of
from ._discrepancy import Discrepancies, Discrepancy, dtype_name, in_a_graph, measure, said_of_types
from ._half_precision import HalfPrecisionFile
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
from ._onnx_file import PREFIX, OnnxFile, Program, UnmatchedError, matched, opened, placed
from ._providers import CPU, DEVICES, check_provider
from ._schedules import Candidate, Schedule, compare, decoder_schedules, run, same_tokens
from ._windows import WINDOWS, in_window, windows_of

__all__ = [
    "CACHE_AXES",
    "CPU",
    "DEVICES",
    "FIRST",
    "LATER",
    "LOGITS",
    "MASK_AXES",
    "PAST",
    "PAST_ARGUMENT",
    "PREFIX",
    "PRESENT",
    "TOKEN_AXES",
    "WINDOWS",
    "Candidate",
    "Contract",
    "Discrepancies",
    "Discrepancy",
    "HalfPrecisionFile",
    "OnnxDecoder",
    "OnnxFile",
    "Program",
    "Schedule",
    "UnmatchedError",
    "cache_names",
    "check_provider",
    "compare",
    "contract_of",
    "decoder_schedules",
    "dotted",
    "dtype_name",
    "in_a_graph",
    "in_window",
    "matched",
    "measure",
    "open_file",
    "opened",
    "placed",
    "present_name",
    "run",
    "said_of_types",
    "same_tokens",
    "windows_of",
]
