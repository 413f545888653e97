"""Nodes that compute in float32 what ONNX does not define for bfloat16, or ONNX Runtime does not compute in it."""

from functools import lru_cache
from typing import Any

import onnx
import onnx_ir as ir

_BFLOAT16, _FLOAT = "tensor(bfloat16)", "tensor(float)"

_WITHOUT_KERNEL = {
    "ArgMax", "ArgMin", "BatchNormalization", "Ceil", "Clip", "ConvTranspose", "Cos", "CumSum", "DepthToSpace",
    "Einsum", "Elu", "Equal", "Floor", "GRU", "GlobalAveragePool", "GlobalMaxPool", "Greater", "GreaterOrEqual",
    "GridSample", "InstanceNormalization", "LRN", "LSTM", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax",
    "MaxPool", "OneHot", "PRelu", "Pad", "RNN", "Range", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSumSquare", "Resize", "Round",
    "Selu", "Sin", "Softplus", "Softsign", "SpaceToDepth", "ThresholdedRelu", "TopK",
}  # fmt: skip
"""Operators that ONNX Runtime has no kernel of bfloat16 for, on a CPU or by CUDA, by its table of kernels
(https://github.com/microsoft/onnxruntime/blob/main/docs/OperatorKernels.md). Seen with 1.31.1: `ReduceMax`."""

_SCATTER = ("ScatterElements", "ScatterND")


def widen_nodes(model: ir.Model) -> None:
    """Put casts around each node in half precision that ONNX does not define in the opset, or has no kernel."""
    opset = model.opset_imports.get("", 0)
    for graph in model.graphs():
        for node in list(graph):
            if node.domain == "":
                _infer_types(node, opset)
                if any(_is_narrow(value, _types(node)) for value in node.inputs):
                    _widen(graph, node, opset)


def _infer_types(node: ir.Node, opset: int) -> None:
    """Give outputs without a type, such as those of a function that was put in place, that of their inputs."""
    if not onnx.defs.has(node.op_type, opset, "") or all(value.dtype is not None for value in node.outputs):
        return
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    of_tensors = {item.type_param_str for item in schema.type_constraints if _is_of_tensors(item)}
    given = zip(schema.inputs, node.inputs, strict=False)
    # What a loop or a branch takes and gives has one name for the types of all, which differ, and sequences too.
    kinds = {
        formal.type_str: value.dtype
        for formal, value in given
        if value is not None and value.dtype is not None and formal.is_homogeneous and formal.type_str in of_tensors
    }
    for formal, value in zip(schema.outputs, node.outputs, strict=False):
        if value.dtype is None and formal.type_str in kinds:
            value.dtype = kinds[formal.type_str]


def _is_of_tensors(constraint: Any) -> bool:
    return all(name.startswith("tensor(") for name in constraint.allowed_type_strs)


def _types(node: ir.Node) -> tuple[ir.DataType, ...]:
    """Return what a node may have to be kept from: bfloat16, and float16 where it sums up what it scatters."""
    return (ir.DataType.BFLOAT16, ir.DataType.FLOAT16) if _is_sum(node) else (ir.DataType.BFLOAT16,)


def _is_sum(node: ir.Node) -> bool:
    # ONNX Runtime loads such a node of float16, and has no kernel for it on a CPU when it is to run it.
    reduction = node.attributes.get("reduction") if node.op_type in _SCATTER else None
    return reduction is not None and reduction.value != "none"


def _is_narrow(value: ir.Value | None, types: tuple[ir.DataType, ...]) -> bool:
    return value is not None and value.dtype in types


def _widen(graph: Any, node: ir.Node, opset: int) -> None:
    types = _types(node)
    takes, gives = _narrow_places(node.op_type, opset, _is_sum(node))
    if not takes:
        return
    before, inputs = [], list(node.inputs)
    for index, value in enumerate(inputs):
        if value is not None and _is_narrow(value, types) and _at(takes, index):
            # Several nodes may take a value, and each has a cast of its own.
            before.append(cast(value, ir.DataType.FLOAT, f"{node.outputs[0].name}_input_{index}"))
            inputs[index] = before[-1].outputs[0]
    if not before:
        return
    narrow = next(value.dtype for value in node.inputs if value is not None and value.dtype in types)
    made = ir.Node("", node.op_type, inputs, node.attributes.values(), num_outputs=len(node.outputs))
    after, results = [], list(made.outputs)
    for index, (old, new) in enumerate(zip(node.outputs, made.outputs, strict=True)):
        new.name, new.shape, new.type = old.name, old.shape, old.type
        if _at(gives, index) and _is_narrow(old, types):
            new.name, new.type = f"{old.name}_float32", ir.TensorType(ir.DataType.FLOAT)
            after.append(cast(new, narrow, old.name))
            results[index] = after[-1].outputs[0]
    made.name = node.name
    ir.convenience.replace_nodes_and_values(graph, node, [node], [*before, made, *after], node.outputs, results)


def _at(places: tuple[bool, ...], index: int) -> bool:
    """Return what holds for an argument; the last of those that an operator names may stand for several."""
    return bool(places) and places[min(index, len(places) - 1)]


def cast(value: ir.Value, to: ir.DataType, name: str | None = None) -> ir.Node:
    """Return a node that casts a value, whose output has its name, or one of its own."""
    node = ir.Node("", "Cast", [value], [ir.AttrInt64("to", to)], num_outputs=1)
    node.outputs[0].name = name or f"{value.name}_{to.name.lower()}"
    node.outputs[0].shape, node.outputs[0].type = value.shape, ir.TensorType(to)
    return node


@lru_cache(maxsize=None)
def _narrow_places(name: str, opset: int, is_sum: bool) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Return for each input and output of an operator whether it may be float32 and should not be narrower."""
    if not onnx.defs.has(name, opset, ""):
        return (), ()
    schema = onnx.defs.get_schema(name, opset, "")
    kinds = {item.type_param_str: set(item.allowed_type_strs) for item in schema.type_constraints}

    def places(formals: Any) -> tuple[bool, ...]:
        allowed = [kinds.get(item.type_str, {item.type_str}) for item in formals]
        return tuple(
            _FLOAT in found and (is_sum or name in _WITHOUT_KERNEL or _BFLOAT16 not in found) for found in allowed
        )

    takes = places(schema.inputs)
    return (takes, places(schema.outputs)) if any(takes) else ((), ())
