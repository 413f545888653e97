"""The layout of transformers.js: ONNX files in `onnx/`, with the name that it knows a batch by."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exportcompat._extras import require

TRANSFORMERS_JS = "transformers.js"
_ONNX = (".onnx", ".data")
_AXES = {"batch": "batch_size"}
"""It makes an empty cache by the names of its axes: of a batch it knows one, and any other axis has size 0."""
_GENAI = "genai_config.json"


def lay_out(staging: Path, layout: str) -> None:
    """Put the ONNX files where a client looks for them."""
    if layout != TRANSFORMERS_JS:
        return
    inner = staging / "onnx"
    # The folder of the model may have had one, whose small files are copied.
    inner.mkdir(exist_ok=True)
    moved = [path for path in sorted(staging.iterdir()) if path.is_file() and path.suffix in _ONNX]
    for path in moved:
        path.replace(inner / path.name)
    for path in inner.glob("*.onnx"):
        _rename_axes(path)
    # It is for another client, which would look for a file that is not there any more.
    (staging / _GENAI).unlink(missing_ok=True)
    large = {path.name.removesuffix(".data"): 1 for path in moved if path.suffix == ".data"}
    config = staging / "config.json"
    if large and config.exists():
        # It asks for a second file only where it is told of one.
        data = json.loads(config.read_text("utf-8"))
        data["transformers.js_config"] = {**data.get("transformers.js_config", {}), "use_external_data_format": large}
        config.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _rename_axes(path: Path) -> None:
    onnx: Any = require("onnx", "onnx")
    model = onnx.load(str(path), load_external_data=False)
    for value in _values(model.graph):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param in _AXES:
                size.dim_param = _AXES[size.dim_param]
    onnx.save(model, str(path))


def _values(graph: Any) -> Iterator[Any]:
    """Yield the values of a graph, and of those in its nodes."""
    yield from [*graph.input, *graph.output, *graph.value_info]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _values(attribute.g)
