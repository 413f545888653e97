"""Nodes of bfloat16 that ONNX does not define.

Symptom: the export of a model in bfloat16 succeeds, and ONNX Runtime cannot load the file: `Type 'tensor(bfloat16)' of
input parameter (linear_4) of operator (TopK) in node (node_topk__1) is invalid` (gpt-oss), and before opset 22 the same
of `Conv`, `Sin`, `Softplus` and some 60 others. On a GPU: `Provider type for ReduceMax node ... is not set`.
Cause: operators are translated whatever the type is, and many do not know bfloat16: `TopK` before opset 24,
convolutions, pooling and most functions of one number before 22. For others ONNX Runtime has no kernel of it, and on
a CPU none that sums up what it scatters in float16 (`index_add` of DBRX: `MLFloat16 data type is not supported with
ScatterND opset 16 when reduction is 'add'`).
What is done: where ONNX' own definition of an operator lacks bfloat16, or ONNX Runtime a kernel, the node computes in
float32 between two casts.
No number is lost by the first, and the second rounds once, as the operator itself would.
Can go: when the exporter looks at ONNX' definitions, or its oldest opset is 24.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_optimize_ir(original: Callable[..., Any]) -> Callable[..., Any]:
    """Let such nodes compute in float32, behind the optimizer, which knows the types."""
    from ._float32_nodes import widen_nodes

    def optimize_ir(model: Any, *args: Any, **options: Any) -> Any:
        found = original(model, *args, **options)
        widen_nodes(model)
        return found

    return optimize_ir


SPECS = (
    PatchingSpec(
        id="torch-onnx-bfloat16-nodes",
        targets=("onnxscript.optimizer:optimize_ir",),
        replacement=f"{__name__}:patch_optimize_ir",
        requires=("torch>=2.6", "onnxscript>=0.6"),
        reason="Operators that ONNX does not define for bfloat16 are written all the same: a file that does not load.",
        upstream=("https://github.com/microsoft/onnxscript/blob/main/onnxscript/optimizer/_optimizer.py",),
        proofs=("gpt_oss_bfloat16",),
        kind="wrap",
    ),
)
