"""A product of a tensor and a number has no graph: `mul.Scalar` has no function in ONNX.

Symptom: `No ONNX function found for <OpOverload(op='aten.mul', overload='Scalar')>` for dynamic NTK, with torch 2.13
and the onnxscript of its time.
Cause: to onnxscript 0.7.1 the table of functions has `mul` of two tensors alone.
What is done: the function is added to the table. A product of integers and a fraction, which torch makes floats, is
left to fail.
Can go: with onnxscript 0.7.1; 0.7.2 has it.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_from_torchlib(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `ONNXRegistry.from_torchlib` know `mul` with a number."""
    from ._operator_table import with_function

    def find() -> tuple[Any, Any]:
        import torch

        from ._scalar_product import product

        return torch.ops.aten.mul.Scalar, product

    return with_function(original, find)


SPECS = (
    PatchingSpec(
        id="torch-onnx-scalar-product",
        targets=("torch.onnx._internal.exporter._registration:ONNXRegistry.from_torchlib",),
        replacement=f"{__name__}:patch_from_torchlib",
        requires=("torch>=2.8", "onnxscript>=0.7,<0.7.2"),
        reason="mul of a tensor and a number has no ONNX function: no graph.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/v0.7.1/onnxscript/function_libs/torch_lib/ops/core.py",
        ),
        proofs=("llama_dynamic",),
        kind="wrap",
    ),
)
