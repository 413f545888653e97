"""Which versions of the packages that write ONNX files go together: what was found by running, one rule each."""

from exportcompat.registry import CompanionRule

_BOOLEANS = (
    "ONNX has integers for the switches of operators, such as transB of Gemm, they are given as booleans, and protobuf "
    "refuses those from 7 on (`Expected an int, got a boolean`): there is no file"
)

COMPANIONS = (
    # Attributes are made integers from onnx-ir 0.1.8 on; to onnxscript 0.2 that code is in onnxscript itself.
    CompanionRule(wanted="protobuf<7", when=("onnx-ir<0.1.8", "onnxscript>=0.3"), why=_BOOLEANS),
    CompanionRule(wanted="protobuf<7", when=("onnxscript<0.3",), why=_BOOLEANS),
)
