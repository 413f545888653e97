"""`int(size)` in a model that is written in a notebook, whose module has no file."""

import linecache
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
