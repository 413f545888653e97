"""Weights in fewer bits: they stay so in a file where it can hold them, and the result says what became of them."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
ir = pytest.importorskip("onnx_ir", reason="the file is read")
pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import ExportCompatError, export
from exportcompat._exporter._opset import default_opset
from exportcompat._exporter._quantized import pack_nibbles, quantized_layers
from exportcompat._verification import OnnxFile

Module: Any = torch.nn.Module
SIZE = 128


def dtypes(path: Path) -> set[str]:
    return {
        str(value.const_value.dtype) for value in ir.load(path).graph.initializers.values() if len(value.shape) == 2
    }


class WeightOnly(Module):  # type: ignore[misc,unused-ignore]
    """A linear layer with int8 weights, each row with a scale, as of a package for quantization."""

    __module__ = "torchao.layers"
    in_features = out_features = SIZE

    def __init__(self, largest: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        values = torch.randint(-largest - 1, largest + 1, (SIZE, SIZE), dtype=torch.int8, generator=generator)
        self.register_buffer("values", values)
        self.register_buffer("scale", torch.rand(SIZE, 1, generator=generator) / largest)

    def forward(self, x: Any) -> Any:
        return x @ (self.values.to(x.dtype) * self.scale).t()


class Refused(WeightOnly):
    """One that cannot be traced."""

    def forward(self, x: Any) -> Any:
        if torch.compiler.is_compiling():
            raise TypeError("no such kernel")
        return super().forward(x)


INPUTS = [{"x": torch.ones(2, SIZE)}, {"x": torch.full((3, SIZE), 0.5)}]


class Model(Module):  # type: ignore[misc,unused-ignore]
    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x)


@pytest.mark.parametrize(("largest", "kept"), [(127, "INT8"), (7, "INT4")])
def test_weights_stay_in_fewer_bits(largest: int, kept: str, tmp_path: Path) -> None:
    result = export(Model(WeightOnly(largest)).eval(), INPUTS, tmp_path)
    assert result.discrepancies is not None and result.discrepancies.success
    kept = kept if (default_opset() or 0) >= 23 else "INT8"
    assert kept in dtypes(result.path)
    assert "WeightOnly (torchao) in 1 of its modules; the file has " in str(result)
    assert f" of {kept.lower()}, " in result.weights and "float32 would have 0.0655 MB" in result.weights
    assert OnnxFile(result.path).metadata["exportcompat.quantized"] == result.weights


def test_a_model_in_floating_point_has_no_such_line(tmp_path: Path) -> None:
    model = Model(torch.nn.Linear(SIZE, SIZE)).eval()
    assert quantized_layers(model) is None
    assert export(model, INPUTS, tmp_path).weights == ""


def test_what_cannot_be_exported_is_said_with_what_to_do(tmp_path: Path) -> None:
    says = r"quantized weights, Refused \(bitsandbytes\) in 1 of its modules, .* no such kernel.*model.dequantize\(\)"
    Refused.__module__ = "bitsandbytes.nn"
    with pytest.raises(ExportCompatError, match=says):
        export(Model(Refused(127)).eval(), INPUTS, tmp_path)
    assert not list(tmp_path.iterdir())


def weight(opset: int, operators: list[str], values: Any) -> Any:
    """Return a model with one int8 weight that these operators read."""
    value = ir.Value(name="w", const_value=ir.tensor(values, name="w"))
    nodes = [
        ir.Node("", operator, [value], attributes=[ir.AttrInt64("to", 1)] if operator == "Cast" else [])
        for operator in operators
    ]
    graph = ir.Graph(
        [], [node.outputs[0] for node in nodes], nodes=nodes, initializers=[value], opset_imports={"": opset}
    )
    return ir.Model(graph, ir_version=10)


@pytest.mark.parametrize(
    ("opset", "operators", "largest", "packed"),
    [
        (23, ["Cast"], 7, True),
        (23, ["Cast", "Cast"], 7, True),
        (23, ["Cast"], 8, False),
        (23, ["Cast", "Transpose"], 7, False),
        (20, ["Cast"], 7, False),
    ],
)
def test_only_what_loses_nothing_is_packed(opset: int, operators: list[str], largest: int, packed: bool) -> None:
    values = torch.arange(-8, largest + 1, dtype=torch.int8).repeat(128)[:1024].reshape(32, 32).clone()
    values[0, 0], values[0, 1] = -8, largest
    model = weight(opset, operators, values.numpy())
    pack_nibbles(model)
    found = model.graph.initializers["w"]
    assert str(found.const_value.dtype) == ("INT4" if packed else "INT8")
    assert (found.const_value.numpy() == values.numpy()).all()
