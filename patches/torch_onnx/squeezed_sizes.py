"""`squeeze` of an axis that is not 1 leaves the tensor as it is in torch, and is an error in ONNX.

Symptom: the export succeeds, and ONNX Runtime cannot load the file (`Dimension of input 0 must be 1 instead of 2`), or
refuses every batch but 1 where the axis is dynamic.
Cause: `squeeze` is translated to ONNX' `Squeeze` of the same axes, whatever their sizes are.
What is done: behind the decompositions, axes that are not 1 are taken out of each `squeeze`.
Can go: when `aten_squeeze_dim` of onnxscript looks at sizes.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_decompose_with_registry(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the function that decomposes a program correct each `squeeze` of what comes out."""

    def decompose_with_registry(exported_program: Any, registry: Any) -> Any:
        program = original(exported_program, registry)
        for module in program.graph_module.modules():
            for node in module.graph.nodes:
                _correct(node)
            module.recompile()
        return program

    return decompose_with_registry


def _correct(node: Any) -> None:
    """Make a `squeeze` one of the axes that are 1; a copy if there is none."""
    import torch

    aten = torch.ops.aten
    if node.target not in (aten.squeeze.dim, aten.squeeze.dims):
        return
    value, axes = node.args
    sizes, axes = value.meta["val"].shape, [axes] if isinstance(axes, int) else list(axes)
    # A number has no axes, and torch squeezes its axis 0 all the same. No size that is symbolic is known to be 1.
    ones = [axis for axis in axes if sizes and isinstance(sizes[axis], int) and sizes[axis] == 1]
    if sizes and len(ones) < len(axes):
        node.target = aten.squeeze.dims if ones else aten.clone.default
        node.args = (value, ones) if ones else (value,)


SPECS = (
    PatchingSpec(
        id="torch-onnx-squeezed-sizes",
        targets=("torch.onnx._internal.exporter._fx_passes:decompose_with_registry",),
        replacement=f"{__name__}:patch_decompose_with_registry",
        requires=("torch>=2.6",),
        reason="A squeeze of an axis that is not 1 becomes one that ONNX Runtime refuses: a file that does not load.",
        upstream=("https://github.com/microsoft/onnxscript/blob/main/onnxscript/function_libs/torch_lib/ops/core.py",),
        proofs=("squeezed_gpt",),
        kind="wrap",
    ),
)
