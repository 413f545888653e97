"""Which versions of the packages that write ONNX files go together, one rule for each reason."""

from exportcompat.registry import CompanionRule

_BOOLEANS = (
    "ONNX has integers for the switches of operators, such as transB of Gemm, they are given as booleans, and protobuf "
    "refuses those from 7 on (`Expected an int, got a boolean`): there is no file"
)

_OPERATORS = "that torch imports its operators from a module which older ones have not: there is no graph"


def _floor(torch: str, wanted: str) -> CompanionRule:
    return CompanionRule(wanted=f"onnxscript>={wanted}", when=(f"torch{torch}",), why=_OPERATORS)


COMPANIONS = (
    # Run with torch 2.13 and onnxscript 0.5.7 and 0.6.0; the others were read: each torch names its module.
    _floor(">=2.7,<2.8", "0.2.2"),
    _floor(">=2.8,<2.9", "0.3.1"),
    _floor(">=2.9,<2.11", "0.4"),
    _floor(">=2.11", "0.6"),
    # Attributes are made integers from onnx-ir 0.1.8 on; to onnxscript 0.2 that code is in onnxscript itself.
    CompanionRule(wanted="protobuf<7", when=("onnx-ir<0.1.8", "onnxscript>=0.3"), why=_BOOLEANS),
    CompanionRule(wanted="protobuf<7", when=("onnxscript<0.3",), why=_BOOLEANS),
)
