"""Run the part of a graph that makes a value, to find out what it is for the calls that count."""

from collections.abc import Mapping
from typing import Any

from exportcompat._extras import require


class Part:
    """The nodes of a graph that a value comes from, as a model of their own.

    Args:
        model: an `onnx_ir.Model`.
        value: what it computes.
        read: the name of the input whose elements may be read; of others the sizes alone.
    """

    def __init__(self, model: Any, value: Any, read: str) -> None:
        self._model, self._value, self._read = model, value, read
        self._nodes, self._known = _origins(value)
        self.inputs = [value for value in self._known.values() if value.is_graph_input()]

    def is_alone(self) -> bool:
        """Say whether it can be run without the rest, and reads no other elements."""
        plain = all(not _has_graph(node) for node in self._nodes.values())
        sized = {id(use.node) for value in self.inputs if value.name != self._read for use in value.uses()}
        return plain and all(node.op_type == "Shape" for key, node in self._nodes.items() if key in sized)

    def session(self) -> Any:
        """Return what runs it; the sizes of its inputs are free."""
        ir, onnx = require("onnx_ir", "onnx"), require("onnx", "onnx")
        runtime = require("onnxruntime", "onnx")
        made = onnx.helper.make_graph(
            [ir.to_proto(node) for node in self._model.graph if id(node) in self._nodes],
            "part",
            [_described(onnx, value) for value in self.inputs],
            [onnx.helper.make_value_info(self._value.name, onnx.TypeProto())],
            [_constant(ir, value) for value in self._known.values() if value.is_initializer()],
        )
        opsets = [onnx.helper.make_opsetid(*item) for item in self._model.opset_imports.items()]
        proto = onnx.helper.make_model(made, opset_imports=opsets, ir_version=self._model.ir_version)
        options = runtime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        return runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(self, session: Any, given: Mapping[str, Any], past: int) -> Any:
        """Return the value, given some inputs; others are empty, with `past` on their third axis."""
        import numpy as np

        feeds = {
            value.name: given[value.name]
            if value.name in given
            # One axis of length 0 makes any size cost nothing.
            else np.zeros((1, 0, past, 0), value.dtype.numpy())
            for value in self.inputs
        }
        return session.run([self._value.name], feeds)[0]


def _origins(made: Any) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the nodes that a value comes from, and all that these read, by identity."""
    nodes: dict[int, Any] = {}
    known: dict[int, Any] = {}
    waiting = [made]
    while waiting:
        value = waiting.pop()
        if value is None or id(value) in known:
            continue
        known[id(value)] = value
        node = value.producer()
        if node is not None:
            nodes[id(node)] = node
            waiting.extend(node.inputs)
    return nodes, known


def _has_graph(node: Any) -> bool:
    return any(item.type.name in {"GRAPH", "GRAPHS"} for item in node.attributes.values())


def _constant(ir: Any, value: Any) -> Any:
    made = ir.to_proto(value.const_value)
    made.name = value.name
    return made


def _described(onnx: Any, value: Any) -> Any:
    rank = len(value.shape) if value.shape is not None else None
    return onnx.helper.make_tensor_value_info(value.name, int(value.dtype), None if rank is None else [None] * rank)
