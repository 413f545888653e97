"""A complex buffer is written by its two parts, as the nodes that read it expect."""

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="a buffer is one of torch")
ir = pytest.importorskip("onnx_ir", reason="the graph is one of onnx_ir")

from exportcompat.patches.torch_onnx.complex_buffers import patch_exported_program_to_onnx_program


class Held(ir.Tensor):  # type: ignore[name-defined,misc,unused-ignore]
    """A tensor of torch in a graph, as the exporter has it."""

    def __init__(self, tensor: Any, name: str | None = None) -> None:
        super().__init__(tensor.resolve_conj().numpy(), name=name)
        self.of_torch = tensor

    @property
    def raw(self) -> Any:
        return self.of_torch


def written(tensor: Any, kind: Any) -> Any:
    """Return the value of a buffer once its program is translated."""
    value = ir.Value(name="turns", shape=ir.Shape(tensor.shape), type=ir.TensorType(kind), const_value=Held(tensor))
    model = SimpleNamespace(graph=SimpleNamespace(initializers={"turns": value}))
    patch_exported_program_to_onnx_program(lambda: SimpleNamespace(model=model))()
    return value


@pytest.mark.parametrize(
    ("dtype", "kind"), [(torch.complex64, ir.DataType.FLOAT), (torch.complex128, ir.DataType.DOUBLE)]
)
def test_a_complex_buffer_is_its_two_parts(dtype: Any, kind: Any) -> None:
    turns = torch.polar(torch.ones(3, 4, dtype=torch.float64), torch.rand(3, 4, dtype=torch.float64)).to(dtype)
    value = written(turns.conj(), kind)
    assert list(value.shape) == [3, 4, 2]
    assert value.const_value.dtype == value.dtype == kind
    assert torch.equal(value.const_value.raw, torch.view_as_real(turns.conj().resolve_conj()))


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [(torch.ones(3), ir.DataType.FLOAT), (torch.ones(3, dtype=torch.complex64), ir.DataType.COMPLEX64)],
)
def test_real_buffers_and_those_of_a_complex_graph_stay(tensor: Any, kind: Any) -> None:
    value = written(tensor, kind)
    assert value.const_value.raw is tensor and list(value.shape) == [3]
