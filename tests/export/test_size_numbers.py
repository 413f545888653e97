"""`int(size)` in a model of a notebook, whose module has no file; logarithms of sizes that a model decides by."""

import linecache
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
onnxruntime = pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import apply_patches

MODEL = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x[:, :int(x.shape[1] // 2)] + half(x)[:, :1]
"""
FUNCTION = """
def half(x):
    return x * int(x.shape[1] * 0.5)
"""


def run_cell(module: ModuleType, source: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a cell as Jupyter does: its text is found by a name that is no file."""
    monkeypatch.setitem(linecache.cache, name, (len(source), None, source.splitlines(keepends=True), name))
    exec(compile(source, name, "exec"), vars(module))


@pytest.mark.skipif(not hasattr(torch.export.Dim, "DYNAMIC"), reason="this torch has no such dimension")
def test_a_model_of_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells: Any = ModuleType("cells")
    monkeypatch.setitem(sys.modules, "cells", cells)
    run_cell(cells, FUNCTION, "/tmp/ipykernel_1/1.py", monkeypatch)
    run_cell(cells, MODEL, "/tmp/ipykernel_1/2.py", monkeypatch)
    model, file = cells.Model().eval(), str(tmp_path / "model.onnx")
    axes = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
    with apply_patches(on_assumption="error"):
        torch.onnx.export(model, (torch.randn(2, 5, 4),), file, dynamic_shapes=axes, dynamo=True)
    assert "int" not in vars(cells)
    session = onnxruntime.InferenceSession(file)
    for length in (2, 4, 9, 30):
        x = torch.randn(3, length, 4)
        torch.testing.assert_close(torch.from_numpy(session.run(None, {"x": x.numpy()})[0]), model(x))


class Doubling(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """Decides by the logarithm of a length in several ways."""

    def forward(self, x: Any) -> Any:
        for step in range(int(math.log2(x.shape[1]))):
            x = x + step
        x = torch.nn.functional.pad(x, (0, 2 ** math.ceil(math.log2(x.shape[1]))))
        return x * 2 if math.log(x.shape[1]) > 1.5 else x * max(1.0, math.log10(x.shape[1]))


@pytest.mark.skipif(not hasattr(torch.export.Dim, "AUTO"), reason="this torch has no such dimension")
def test_a_model_that_decides_by_a_logarithm_is_captured_as_without_patches() -> None:
    model, x = Doubling().eval(), torch.randn(2, 5)
    axes = ({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},)
    with apply_patches():
        program = torch.export.export(model, (x,), dynamic_shapes=axes)
    torch.testing.assert_close(program.module()(x), model(x))
    with apply_patches(), pytest.raises(Exception, match="specialized it to be a constant"):
        torch.export.export(model, (x,), dynamic_shapes=({1: torch.export.Dim.DYNAMIC},))


@pytest.mark.skipif(not hasattr(torch.export.Dim, "AUTO"), reason="this torch has no such dimension")
def test_indices_of_a_triangle_take_all_options() -> None:
    class Triangles(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def forward(self, x: Any) -> Any:
            make = (torch.tril_indices, torch.triu_indices)
            return [item(x.shape[1], x.shape[1], 1, layout=torch.strided) for item in make]

    x = torch.randn(2, 5)
    with apply_patches():
        program = torch.export.export(Triangles(), (x,), dynamic_shapes=({1: torch.export.Dim.AUTO},))
    torch.testing.assert_close(program.module()(x), Triangles()(x))
