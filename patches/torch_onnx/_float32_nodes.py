"""Nodes that compute in float32 what ONNX does not define for bfloat16."""

from functools import lru_cache
from typing import Any

import onnx
import onnx_ir as ir

_BFLOAT16, _FLOAT = "tensor(bfloat16)", "tensor(float)"


def widen_nodes(model: ir.Model) -> None:
    """Put casts around each node of bfloat16 whose operator is not defined for it in the model's opset."""
    opset = model.opset_imports.get("", 0)
    for graph in model.graphs():
        for node in list(graph):
            if node.domain == "" and any(_is_narrow(value) for value in node.inputs):
                _widen(graph, node, opset)


def _is_narrow(value: ir.Value | None) -> bool:
    return value is not None and value.dtype == ir.DataType.BFLOAT16


def _widen(graph: Any, node: ir.Node, opset: int) -> None:
    takes, gives = _narrow_places(node.op_type, opset)
    if not takes:
        return
    before, inputs = [], list(node.inputs)
    for index, value in enumerate(inputs):
        if value is not None and _is_narrow(value) and _at(takes, index):
            before.append(cast(value, ir.DataType.FLOAT))
            inputs[index] = before[-1].outputs[0]
    if not before:
        return
    made = ir.Node("", node.op_type, inputs, node.attributes.values(), num_outputs=len(node.outputs))
    after, results = [], list(made.outputs)
    for index, (old, new) in enumerate(zip(node.outputs, made.outputs, strict=True)):
        new.name, new.shape, new.type = old.name, old.shape, old.type
        if _at(gives, index) and _is_narrow(old):
            new.name, new.type = f"{old.name}_float32", ir.TensorType(ir.DataType.FLOAT)
            after.append(cast(new, ir.DataType.BFLOAT16, old.name))
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
def _narrow_places(name: str, opset: int) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Return for each input and output of an operator whether it may be float32 and may not be bfloat16."""
    if not onnx.defs.has(name, opset, ""):
        return (), ()
    schema = onnx.defs.get_schema(name, opset, "")
    kinds = {item.type_param_str: set(item.allowed_type_strs) for item in schema.type_constraints}

    def places(formals: Any) -> tuple[bool, ...]:
        allowed = [kinds.get(item.type_str, {item.type_str}) for item in formals]
        return tuple(_FLOAT in found and _BFLOAT16 not in found for found in allowed)

    takes = places(schema.inputs)
    return (takes, places(schema.outputs)) if any(takes) else ((), ())
