"""ONNX Runtime has no kernel that chooses between booleans, or integers of 16 bits.

Symptom: the export succeeds, and ONNX Runtime cannot load the file: `Could not find an implementation for Where(16)`. A
model that takes tokens out of a mask has it: `torch.where(padding, mask, other)`, `mask.masked_fill(padding, False)`,
and from torch 2.15 on `mask[padding] = False`, as Gemma3 to 4.52 does with its images.
Cause: `where` and `masked_fill` become ONNX' `Where` of the same type, for which the runtime has no kernel on the CPU.
What is done: before the translation, they choose between integers of a type that it has, and the answer is cast back.
Can go: when ONNX Runtime has kernels of these types.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_INSTEAD = {"bool": "uint8", "int16": "int32"}


def patch_prepare_exported_program(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the function that prepares a program for the translation correct types that are chosen from."""

    def prepare(exported_program: Any, *, registry: Any) -> Any:
        program = original(exported_program, registry=registry)
        for module in program.graph_module.modules():
            for node in module.graph.nodes:
                _correct(module.graph, node)
            module.recompile()
        return program

    return prepare


def _correct(graph: Any, node: Any) -> None:
    """Make a choice between values of a type without a kernel one between others, of which this node is the cast."""
    import torch

    aten = torch.ops.aten
    packet = getattr(node.target, "overloadpacket", None)
    if packet not in (aten.where, aten.masked_fill) or len(node.args) < 3:
        return
    found = node.meta["val"].dtype
    if name := _INSTEAD.get(str(found).removeprefix("torch.")):
        dtype, condition = getattr(torch, name), 0 if packet is aten.where else 1
        with graph.inserting_before(node):
            values = [arg if at == condition else _cast(graph, node, arg, dtype) for at, arg in enumerate(node.args)]
            target = aten.where.self if packet is aten.where else aten.masked_fill.Tensor
            chosen = _call(graph, node, target, values, node.meta["val"].to(dtype))
        node.target, node.args, node.kwargs = aten._to_copy.default, (chosen,), {"dtype": found}


def _cast(graph: Any, node: Any, value: Any, dtype: Any) -> Any:
    """Return a tensor of another type, of a tensor or a number that a node chooses from."""
    import torch

    aten = torch.ops.aten
    if not isinstance(value, torch.fx.Node):
        number = node.meta["val"].new_empty((), dtype=dtype)
        return _call(graph, node, aten.scalar_tensor.default, (int(value),), number, dtype=dtype)
    return _call(graph, node, aten._to_copy.default, (value,), value.meta["val"].to(dtype), dtype=dtype)


def _call(graph: Any, node: Any, target: Any, args: Any, answer: Any, **kwargs: Any) -> Any:
    """Add a call that comes from the same place of the model as a node, and has an answer like this one."""
    made = graph.call_function(target, tuple(args), kwargs)
    made.meta = {**node.meta, "val": answer}
    return made


SPECS = (
    PatchingSpec(
        id="torch-onnx-where-types",
        targets=("torch.onnx._internal.exporter._core:_prepare_exported_program_for_export",),
        replacement=f"{__name__}:patch_prepare_exported_program",
        requires=("torch>=2.6",),
        reason="A choice between booleans becomes one that ONNX Runtime has no kernel for: a file that does not load.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/main/onnxscript/function_libs/torch_lib/ops/core.py",
            "https://github.com/microsoft/onnxruntime/blob/main/docs/OperatorKernels.md",
        ),
        proofs=("choosing_gpt",),
        kind="wrap",
    ),
)
