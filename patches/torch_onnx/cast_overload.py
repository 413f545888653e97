"""The pass that inserts casts takes a question about a tensor for the operator that it looks for.

Symptom: `AssertionError: Expected same OpOverload packet, got prim.device != aten.add` for a model that adds an integer
to a weight, as the layer norm of Nemotron to 4.57 does. `torch.export` takes it; the ONNX exporter stops behind that.
Cause: once an operand has been cast, the pass runs the operator to see which overload is called, and takes the first
call that it sees. Where an operand is a parameter, torch asks for its device before that.
What is done: calls of the namespace `prim`, which ask what a tensor is and compute nothing, are not noted.
Can go: with torch 2.12; torch 2.13 looks for no overload by running it (run on 2.12.1 and 2.13.0).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_op_trace_dispatch(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_OpTraceDispatchMode.__torch_dispatch__` note no question about a tensor."""

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "prim":
            return func(*args, **(kwargs or {}))
        return original(self, func, types, args, kwargs or {})

    return dispatch


SPECS = (
    PatchingSpec(
        id="torch-onnx-cast-overload",
        targets=("torch.onnx._internal.fx.passes.type_promotion:_OpTraceDispatchMode.__torch_dispatch__",),
        replacement=f"{__name__}:patch_op_trace_dispatch",
        requires=("torch>=2.6,<2.13",),
        reason="The pass that inserts casts takes prim.device for an operator: no graph of a weight plus an integer.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.12.1/torch/onnx/_internal/fx/passes/type_promotion.py",),
        proofs=("offset_gpt",),
        kind="wrap",
    ),
)
