"""The version of operators that a file gets, and what the newer `Attention` makes of heads that are shared."""

from types import SimpleNamespace
from typing import Any

import pytest
from packaging.version import Version

from exportcompat._exporter import _opset, _steps
from exportcompat._serving._grouped_heads import share_heads

TAKEN = {"torch": "2.13.0", "onnx": "1.19.0", "onnxscript": "0.7.2", "onnxruntime": "1.23.1"}


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, 23),
        ({"onnxruntime": "1.23.0"}, None),
        ({"onnxruntime": None}, None),
        ({"onnxscript": "0.6.2"}, None),
        ({"torch": "2.12.1"}, None),
        ({"torch": "2.14.0+cpu"}, 23),
    ],
)
def test_the_preferred_opset_is_for_what_takes_it(
    changed: dict[str, str | None], wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, str | None] = {**TAKEN, **changed}
    versions = {name: None if text is None else Version(text) for name, text in found.items()}
    monkeypatch.setattr(_opset, "installed_version", versions.get)
    assert _opset.default_opset() == wanted


def graph(times: int, axis: int = 2, heads: int = 4) -> Any:
    """Return a graph of attention whose 2 heads of keys and values are repeated, or expanded along another axis."""
    ir = pytest.importorskip("onnx_ir", reason="graphs are read with it")
    return ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 23]>
agraph (float[b, {heads}, s, 8] q, float[b, 2, t, 8] k, float[b, 2, t, 8] v, bool[b, 1, s, t] m)
  => (float[b, {heads}, s, 8] y)
  <int64[1] axis = {{{axis}}}, int64[5] wide = {{1, 1, {times}, 1, 1}}, int64[4] flat = {{0, {2 * times}, -1, 8}},
   float[b, 2, 1, t, 8] k1, float[b, 2, {times}, t, 8] k2, float[b, {2 * times}, t, 8] k3,
   float[b, 2, 1, t, 8] v1, float[b, 2, {times}, t, 8] v2, float[b, {2 * times}, t, 8] v3>
{{
  k1 = Unsqueeze(k, axis)
  k2 = Expand(k1, wide)
  k3 = Reshape(k2, flat)
  v1 = Unsqueeze(v, axis)
  v2 = Expand(v1, wide)
  v3 = Reshape(v2, flat)
  y = Attention(q, k3, v3, m)
}}""")


def test_shared_heads_are_read_as_they_are() -> None:
    model = graph(2)
    assert share_heads(model) == 1
    assert [node.op_type for node in model.graph] == ["Attention"]
    assert [value.name for value in model.graph[0].inputs] == ["q", "k", "v", "m"]


@pytest.mark.parametrize(("times", "axis", "heads"), [(2, 1, 4), (2, 2, 8), (1, 3, 2)])
def test_other_copies_stay(times: int, axis: int, heads: int) -> None:
    model = graph(times, axis, heads)
    assert share_heads(model) == 0
    assert len(list(model.graph)) == 7


def test_what_the_preferred_opset_cannot_hold_is_written_in_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = pytest.importorskip("torch.onnx._internal.exporter._errors", reason="the export is torch's")
    tried: list[int | None] = []

    def exported(model: Any, observer: Any, batch: bool | None, opset: int | None) -> Any:
        tried.append(opset)
        if opset is not None:
            raise errors.ConversionError("no translation of a node")
        return SimpleNamespace(model=graph(2))

    monkeypatch.setattr(_steps, "_exported", exported)
    monkeypatch.setattr(_steps, "default_opset", lambda: 23)
    monkeypatch.setattr(_steps, "takes_more_rows", lambda observer: True)
    observer: Any = SimpleNamespace(interface=lambda: (["q"], ["y"]), axes=dict)
    model: Any = SimpleNamespace(modules=list, parameters=list)
    lines: list[str] = []
    made, names = _steps.program(model, observer, None, lines.append)
    assert tried == [23, None] and names == ["q"] and made.model.opset_imports[""] == 23
    assert "opset 23 cannot be written" in lines[0] and "no translation of a node" in lines[0]
    # One that somebody has asked for is not exchanged.
    with pytest.raises(errors.ConversionError):
        _steps.program(model, observer, 23, lines.append)
