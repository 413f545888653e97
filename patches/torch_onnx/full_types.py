"""A number has another type in the file than in torch, so that the file does not load.

Symptom: the export succeeds, and ONNX Runtime cannot load the file: `Type parameter (T) of Optype (Where) bound to
different types (tensor(int64) and tensor(float)`. So it is for positions that begin as `torch.full(size, fill_value=0)`
in Idefics 2 and 3 and SmolVLM, for masks that begin as `torch.full(size, False)`, for the numbers of places that images
have in Qwen2-VL, and for `mask.scatter_(1, index, 1)`, by which DeepSeek V3 and its kin choose groups of experts.
Cause: to onnxscript 0.7.0 `aten_full` takes no type for float32, where torch takes it for that of the number; and to
0.5.3 `scatter` expands the constant that the exporter makes of a number, an int64 or a float32.
What is done: before a node is translated, the type that the capture has found is written to a `full`, and the number of
a `scatter` becomes a tensor of the type that it is written to.
Can go: with onnxscript 0.7.0; 0.7.1 leaves the number as it is.
"""

import functools
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import variants


def patch_full(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the function that translates a node to ONNX write the type of a tensor that is filled with a number."""

    @functools.wraps(original)
    def _handle_call_function_node_with_lowering(model: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        if node.target is torch.ops.aten.full.default and node.kwargs.get("dtype") is None:
            node.kwargs = {**node.kwargs, "dtype": node.meta["val"].dtype}
        return original(model, node, *args, **kwargs)

    return _handle_call_function_node_with_lowering


def patch_full_and_scatter(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make that function give `scatter` a tensor for a number as well."""
    translate = patch_full(original)

    @functools.wraps(original)
    def _handle_call_function_node_with_lowering(model: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        if node.target is torch.ops.aten.scatter.value:
            translate(model, _with_tensor(node), *args, **kwargs)
        return translate(model, node, *args, **kwargs)

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


SPECS = variants(
    {
        "id": "torch-onnx-full-types",
        "targets": ("torch.onnx._internal.exporter._core:_handle_call_function_node_with_lowering",),
        "reason": "A number, such as that of a filled tensor, has another type in ONNX: a file that does not load.",
        "upstream": (
            "https://github.com/microsoft/onnxscript/blob/v0.7.0/onnxscript/function_libs/torch_lib/ops/core.py",
        ),
        "kind": "wrap",
    },
    {
        ("torch>=2.6", "onnxscript<0.5.4"): {
            "replacement": f"{__name__}:patch_full_and_scatter",
            "proofs": ("deepseek_v3",),
        },
        ("torch>=2.6,<2.10", "onnxscript>=0.5.4,<0.7.1"): {
            "replacement": f"{__name__}:patch_full",
            "proofs": ("qwen2_vl", "qwen3_vl"),
        },
        ("torch>=2.10", "onnxscript>=0.5.4,<0.7.1"): {
            "replacement": f"{__name__}:patch_full",
            "proofs": ("idefics3", "idefics2"),
        },
    },
)
