"""Patches for releases of torch that are older than the one installed: what they do, without an export."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the patches are for torch")
ir = pytest.importorskip("onnxscript", reason="a file is made with it").ir

from exportcompat.patches.torch_export_frozen_copies import thawed
from exportcompat.patches.torch_onnx_shared_outputs import with_copies


def rename(model: Any, names: Sequence[str]) -> None:
    """Rename outputs, as torch does to 2.10."""
    for output, name in zip(model.graph.outputs, names, strict=True):
        output.name = name


def test_outputs_that_are_inputs_or_twice_there_get_values_of_their_own() -> None:
    mask = ir.Value(name="mask", shape=ir.Shape(["batch"]), type=ir.TensorType(ir.DataType.BOOL))
    node = ir.Node("", "Not", [mask])
    graph = ir.Graph([mask], [node.outputs[0], mask, node.outputs[0]], nodes=[node], opset_imports={"": 18})
    with_copies(rename)(ir.Model(graph, ir_version=10), ["a", "b", "c"])
    assert [value.name for value in graph.inputs] == ["mask"]
    assert [value.name for value in graph.outputs] == ["a", "b", "c"]
    assert (graph.outputs[1].shape, graph.outputs[1].dtype) == (mask.shape, mask.dtype)
    assert [node.op_type for node in graph] == ["Not", "Identity", "Identity"]


@pytest.mark.parametrize(("dtype", "is_frozen"), [(torch.float64, False), (torch.float32, True), (None, True)])
def test_a_copy_of_another_dtype_is_not_frozen(dtype: Any, is_frozen: bool) -> None:
    mode = SimpleNamespace(export=True)

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> bool:
        return bool(self.export)

    options = {} if dtype is None else {"dtype": dtype}
    copy = torch.ops.aten._to_copy.default
    assert thawed(dispatch)(mode, copy, (), (torch.ones(1, dtype=torch.float32),), options) is is_frozen
    assert mode.export
