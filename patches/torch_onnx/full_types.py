"""A tensor that is filled with an integer or a boolean is one of floats in the file.

Symptom: the export succeeds, and ONNX Runtime cannot load the file: `Type parameter (T) of Optype (Where) bound to
different types (tensor(int64) and tensor(float)`, for positions that begin as `torch.full(size, fill_value=0)` in
Idefics 2 and 3 and SmolVLM, and for masks that begin as `torch.full(size, False)`.
Cause: to onnxscript 0.7.0 `aten_full` takes no type for float32, where torch takes it for that of the number.
What is done: before a node is translated, the type that the capture has found is written to it.
Can go: with onnxscript 0.7.0; 0.7.1 leaves the number as it is.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_handle_call_function_node(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the function that translates a node to ONNX write the type of a tensor that is filled with a number."""

    def handle(model: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        if node.target is torch.ops.aten.full.default and node.kwargs.get("dtype") is None:
            node.kwargs = {**node.kwargs, "dtype": node.meta["val"].dtype}
        return original(model, node, *args, **kwargs)

    return handle


SPECS = (
    PatchingSpec(
        id="torch-onnx-full-types",
        targets=("torch.onnx._internal.exporter._core:_handle_call_function_node_with_lowering",),
        replacement=f"{__name__}:patch_handle_call_function_node",
        requires=("torch>=2.10", "onnxscript<0.7.1"),
        reason="A tensor that is filled with an integer is one of floats in ONNX: a file that does not load.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/v0.7.0/onnxscript/function_libs/torch_lib/ops/core.py",
        ),
        proofs=("idefics3", "idefics2"),
        kind="wrap",
    ),
)
