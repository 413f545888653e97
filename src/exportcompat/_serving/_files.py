"""Read a file as a graph, and write it with what it says of itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat._verification import PREFIX

_IN_FILE = 128 * 2**20
"""Bytes of weights that are written into the file itself."""


def load(path: Path) -> Any:
    """Return an `onnx_ir.Model` with its weights in memory, so that the file can be written anew."""
    ir = require("onnx_ir", "onnx")
    return ir.external_data.load_to_model(ir.load(path))


def write(model: Any, path: Path, facts: Mapping[str, str] | None = None) -> None:
    """Write a model, its weights beside it if they are large; facts go to `metadata_props`."""
    ir = require("onnx_ir", "onnx")
    model.metadata_props.update({f"{PREFIX}{key}": value for key, value in (facts or {}).items()})
    weights = [item.const_value for item in model.graph.initializers.values() if item.const_value is not None]
    is_large = sum(item.nbytes for item in weights) > _IN_FILE
    ir.save(model, path, external_data=f"{path.name}.data" if is_large else None)
