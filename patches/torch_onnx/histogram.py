"""Experts whose tokens are counted have no graph: `histc` has no function in ONNX.

Symptom: `No ONNX function found for <OpOverload(op='aten.histc', overload='default')>` for Mixtral and GPT-OSS of
transformers 5.0 and later, which count the tokens of each expert so.
Cause: to onnxscript 0.6 the table of functions has no `histc`.
What is done: the function is added to the table, for a range that is given. A range that is that of the data is left
to fail.
Can go: with onnxscript 0.6; 0.7 has it.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_from_torchlib(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `ONNXRegistry.from_torchlib` know `histc`."""
    from ._operator_table import with_function

    def find() -> tuple[Any, Any]:
        import torch

        from ._histogram import histogram

        return torch.ops.aten.histc.default, histogram

    return with_function(original, find)


SPECS = (
    PatchingSpec(
        id="torch-onnx-histogram",
        targets=("torch.onnx._internal.exporter._registration:ONNXRegistry.from_torchlib",),
        replacement=f"{__name__}:patch_from_torchlib",
        requires=("torch>=2.8", "onnxscript>=0.4,<0.7"),
        reason="histc, by which experts count their tokens, has no ONNX function: no graph.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/v0.6.2/onnxscript/function_libs/torch_lib/ops/core.py",
        ),
        proofs=("mixtral",),
        kind="wrap",
    ),
)
