"""A scale of float32 on a normalized tensor of a smaller type becomes a node that ONNX Runtime cannot load.

Symptom: the export of Gemma 2 or Gemma 3 in float16 or bfloat16 to opset 23 succeeds, and ONNX Runtime refuses the
file: `Type parameter (T) of Optype (Mul) bound to different types (tensor(bfloat16) and tensor(float)`.
Cause: they cast to float32, normalize, and multiply with a scale in float32. onnxscript makes one `RMSNormalization` of
all of it, with an input in the small type and a scale in float32. That operator multiplies in the type of its input.
What is done: where the two types differ, the input is cast to that of the scale first.
Can go: when the rule compares the types.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_fuse_rms_normalization(original: Callable[..., Any]) -> Callable[..., Any]:
    """Give each `RMSNormalization` that is made an input of the type of its scale."""

    # The model is the first argument, by position or by name.
    def fuse_rms_normalization(model: Any, *args: Any, **options: Any) -> Any:
        from ._float32_nodes import cast

        found = original(model, *args, **options)
        for graph in model.graphs():
            for node in list(graph):
                value, scale = node.inputs[:2] if node.op_type == "RMSNormalization" else (None, None)
                if value is not None and scale is not None and value.dtype != scale.dtype:
                    before = cast(value, scale.dtype)
                    graph.insert_before(node, before)
                    node.replace_input_with(0, before.outputs[0])
        return found

    return fuse_rms_normalization


SPECS = (
    PatchingSpec(
        id="torch-onnx-rms-norm-types",
        targets=("onnxscript.rewriter.rules.fusion._rms_normalization:fuse_rms_normalization",),
        replacement=f"{__name__}:patch_fuse_rms_normalization",
        requires=("torch>=2.9", "onnxscript>=0.6"),
        reason="A scale in float32 on a smaller type becomes RMSNormalization of two types: a file that does not load.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/main/onnxscript/rewriter/rules/fusion/_rms_normalization.py",
        ),
        proofs=("gemma3_bfloat16",),
        kind="wrap",
    ),
)
