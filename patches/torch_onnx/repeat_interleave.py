"""`repeat_interleave` by a size that is dynamic repeats another axis, or none.

Symptom: `x.repeat_interleave(n, dim)` with a dynamic `n` stops in ONNX Runtime (`invalid expand shape`); where `n` is
1, or as large as the axis behind `dim`, the repetition is left out without a word.
Cause: `aten_repeat_interleave_self_int` of onnxscript puts a new axis behind `dim`, and a symbolic `n` at `dim` itself.
What is done: the exporter is not told that there is a function for this operator, so that torch takes it apart into
`unsqueeze`, `expand` and `flatten`, which have the repetition where it belongs. Repetitions that are a tensor are taken
apart by torch already.
Can go: when `aten_repeat_interleave_self_int` has the ones of a symbolic repetition in the right order.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_get_onnx_implemented_overloads(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `get_onnx_implemented_overloads`, made to leave `repeat_interleave` by a number out."""
    import torch

    def get_onnx_implemented_overloads(registry: Any) -> list[Any]:
        wrong = torch.ops.aten.repeat_interleave.self_int
        return [operator for operator in original(registry) if operator is not wrong]

    return get_onnx_implemented_overloads


SPECS = (
    PatchingSpec(
        id="torch-onnx-repeat-interleave",
        targets=("torch.onnx._internal.exporter._decomp:get_onnx_implemented_overloads",),
        replacement=f"{__name__}:patch_get_onnx_implemented_overloads",
        requires=("torch>=2.6", "onnxscript>=0.5"),
        reason="Repeating by a dynamic size repeats another axis: a file that stops, or leaves the repetition out.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/main/onnxscript/function_libs/torch_lib/ops/core.py",
            "https://github.com/facebookresearch/sam2/issues/702",
        ),
        proofs=("repeating_gpt",),
        kind="wrap",
    ),
)
