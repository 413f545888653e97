"""A number that is written to places of a tensor has its own type in the file.

Symptom: ONNX Runtime cannot load the file: `Type parameter (T) of Optype (ScatterElements) bound to different types
(tensor(float) and tensor(int64))`, for `mask.scatter_(1, index, 1)` by which DeepSeek V3 and its kin choose groups of
experts; in half precision for any number.
Cause: to onnxscript 0.5.3 `scatter` of a number expands the constant that the exporter makes of it, an int64 or float.
What is done: before the node is translated, the number becomes a tensor of the type that it is written to.
Can go: when onnxscript 0.5.3 is no longer supported; 0.5.4 makes the constant of that type.
"""

import functools
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_handle_call_function_node(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the function that translates a node to ONNX give `scatter` a tensor for a number."""

    @functools.wraps(original)
    def _handle_call_function_node_with_lowering(model: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        if node.target is torch.ops.aten.scatter.value:
            original(model, _with_tensor(node), *args, **kwargs)
        return original(model, node, *args, **kwargs)

    return _handle_call_function_node_with_lowering


def _with_tensor(node: Any) -> Any:
    """Give a `scatter` a tensor for its number, and return the node that makes it, which is in front."""
    import torch

    x, axis, index, number = node.args
    like = x.meta["val"]
    with node.graph.inserting_before(node):
        made = node.graph.call_function(torch.ops.aten.scalar_tensor.default, (number,), {"dtype": like.dtype})
    made.meta.update(node.meta, val=like.new_empty(()))
    node.args = (x, axis, index, made)
    return made


SPECS = (
    PatchingSpec(
        id="torch-onnx-scatter-number",
        targets=("torch.onnx._internal.exporter._core:_handle_call_function_node_with_lowering",),
        replacement=f"{__name__}:patch_handle_call_function_node",
        requires=("torch>=2.6,<2.10", "onnxscript<0.5.4"),
        reason="A number that is written to places of a tensor has its own type: a file that does not load.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/v0.4.0/onnxscript/function_libs/torch_lib/ops/core.py",
        ),
        proofs=("deepseek_v3",),
        kind="wrap",
    ),
)
