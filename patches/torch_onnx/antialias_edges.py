"""Maps that are resized with `antialias=True` have other numbers at their edges in the file.

Symptom: DINOv2 with registers is off at every size but the sample's, and SAM 2 where masks are made smaller; with
`mode="bicubic"` all places are off. Nothing is said.
Cause: to onnxscript 0.7.0 they become a `Resize` that counts what lies outside of the map, which torch leaves out, and
that before 0.7.0 has the coefficient of a bicubic resize without `antialias`, -0.75 and not -0.5.
What is done: the `Resize` is told so.
Can go: when onnxscript 0.7.0 is no longer supported; 0.7.1 does the same.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_upsample(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that writes a `Resize` leave out what lies outside, if it is one with `antialias`."""

    def _aten_upsample_output_size(*args: Any, **kwargs: Any) -> Any:
        import onnx_ir

        resized = original(*args, **kwargs)
        node = resized.producer()
        if kwargs.get("antialias") and node is not None:
            node.attributes.add(onnx_ir.AttrInt64("exclude_outside", 1))
            node.attributes.add(onnx_ir.AttrFloat32("cubic_coeff_a", -0.5))
        return resized

    return _aten_upsample_output_size


_FUNCTIONS = "onnxscript.function_libs.torch_lib.ops.nn"

SPECS = (
    PatchingSpec(
        id="torch-onnx-antialias-edges",
        targets=(f"{_FUNCTIONS}:_aten_upsample_output_size",),
        replacement=f"{__name__}:patch_upsample",
        requires=("torch>=2.6", "onnxscript>=0.3.1,<0.7.1"),
        reason="Maps that are resized with antialias count what lies outside of them: wrong numbers at their edges.",
        upstream=("https://github.com/microsoft/onnxscript/blob/v0.7.0/onnxscript/function_libs/torch_lib/ops/nn.py",),
        proofs=("dinov2_with_registers",),
        kind="wrap",
    ),
)
