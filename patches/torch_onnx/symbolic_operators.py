"""The exporter has no functions for `torch.sym_float`, `sym_max`, `sym_min` and `sym_not`.

Symptom: `No ONNX function found for <function sym_float>` for NLLB-MoE, `sym_min` for DeepSeek-V3.2.
Cause: they are in the table of functions from torch 2.8.
What is done: they are added to it.
Can go: with torch 2.7.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def with_symbolic_operators(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `ONNXRegistry.get_decomps`, made to know operators on sizes."""
    from ._symbolic_operators import FUNCTIONS

    def get_decomps(self: Any, target: Any) -> Any:
        known = original(self, target)
        if known or target not in FUNCTIONS:
            return known
        self.register_op(target, FUNCTIONS[target])
        return original(self, target)

    return get_decomps


SPECS = (
    PatchingSpec(
        id="torch-onnx-symbolic-operators",
        targets=("torch.onnx._internal.exporter._registration:ONNXRegistry.get_decomps",),
        replacement=f"{__name__}:with_symbolic_operators",
        requires=("torch>=2.6,<2.8", "onnxscript>=0.1"),
        reason="Operators on sizes have no ONNX function: no graph.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.8.0/torch/onnx/_internal/exporter/_torchlib/ops/symops.py",
        ),
        proofs=("nllb_moe_decoder",),
        kind="wrap",
    ),
)
