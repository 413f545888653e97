"""A tensor of values cannot be scattered: `scatter` with a source has no function in ONNX.

Symptom: `No ONNX function found for <OpOverload(op='aten.scatter', overload='src')>` for Mamba and Jamba, and for each
write to places of a tensor, which `torch-onnx-index-put` makes a `scatter`.
Cause: to onnxscript 0.3.2 the table of functions has `scatter` of a number alone.
What is done: the function is added to the table. Of a source that is larger than the index, the first of each axis
count, as in torch.
Can go: with onnxscript 0.3; 0.4 has it.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_from_torchlib(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `ONNXRegistry.from_torchlib` know `scatter` with a source."""
    from ._operator_table import with_function

    def find() -> tuple[Any, Any]:
        import torch

        from ._scatter_source import scatter

        return torch.ops.aten.scatter.src, scatter

    return with_function(original, find)


SPECS = (
    PatchingSpec(
        id="torch-onnx-scatter-source",
        targets=("torch.onnx._internal.exporter._registration:ONNXRegistry.from_torchlib",),
        replacement=f"{__name__}:patch_from_torchlib",
        requires=("torch>=2.6,<2.9", "onnxscript<0.4"),
        reason="scatter with a source has no ONNX function: no graph.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/v0.3.1/onnxscript/function_libs/torch_lib/ops/core.py",
        ),
        proofs=("mamba",),
        kind="wrap",
    ),
)
