"""`squeeze` of an axis that is not 1 leaves the tensor as it is in torch, and is an error in ONNX.

Symptom: the export succeeds, and ONNX Runtime cannot load the file (`Dimension of input 0 must be 1 instead of 2`), or
refuses every batch but 1 where the axis is dynamic. `squeeze()` without an axis stops at a batch of 1 alone
(`Unsqueeze`, `axis 1 is not in valid range`), as PLBart and mBART did, which shift tokens by it.
Cause: `squeeze` is translated to ONNX' `Squeeze` of the same axes, whatever their sizes are, and without axes to one of
those that are 1 in a call, while the operators behind it have the axes of the sample.
What is done: behind the decompositions, axes that are not 1 are taken out of each `squeeze`, and one without axes gets
those that are always 1. A dynamic axis stays; that it is not 1 is told as an assumption where eager mode may go another
way then. One that is named and 1 in the sample goes, which is told too, and a `squeeze` without axes is left to the
sizes of a call if it has such an axis. A result that only passes operators on single elements on its way out is
squeezed by the sizes of a call.
Can go: when `aten_squeeze_dim` and `aten_squeeze` of onnxscript look at sizes.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_decompose_with_registry(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the function that decomposes a program correct each `squeeze` of what comes out."""

    def decompose_with_registry(exported_program: Any, registry: Any) -> Any:
        from ._squeezes import correct_squeeze

        program = original(exported_program, registry)
        for module in program.graph_module.modules():
            for node in module.graph.nodes:
                correct_squeeze(node)
            module.recompile()
        return program

    return decompose_with_registry


SPECS = (
    PatchingSpec(
        id="torch-onnx-squeezed-sizes",
        targets=("torch.onnx._internal.exporter._fx_passes:decompose_with_registry",),
        replacement=f"{__name__}:patch_decompose_with_registry",
        requires=("torch>=2.6",),
        reason="A squeeze of an axis that is not 1 becomes one that ONNX Runtime refuses: a file that does not load.",
        upstream=("https://github.com/microsoft/onnxscript/blob/main/onnxscript/function_libs/torch_lib/ops/core.py",),
        proofs=("squeezed_gpt", "plbart_classes"),
        kind="wrap",
    ),
)
