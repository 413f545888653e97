"""optimum-onnx, which is what `optimum-cli export onnx` runs, and its file in ONNX Runtime."""

from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

from ._lane import Lane
from ._whole_export import CASES, convert, load

_TASK = "text-generation-with-past"


def capture(subject: Any) -> "TemporaryDirectory[str]":
    """Export a decoder into a folder, as it captures and converts in one step.

    Args:
        subject: a decoder.
    """
    made = TemporaryDirectory()
    exporter: Any = import_module("optimum.exporters.onnx")
    exporter.onnx_export_from_model(subject.model, made.name, task=_TASK, do_validation=False)
    return made


LANES = (
    Lane(
        name="optimum-onnx",
        title="`optimum-cli export onnx`",
        capture=capture,
        convert=convert,
        load=load,
        packages=("optimum-onnx", "onnx", "onnxruntime"),
        cases=CASES,
        how_dynamic="batch and lengths",
        notes="""\
It traces the model. `PATCHING_SPECS = to_optimum()` does the same for one architecture; see
[Other exporters](exporters.md#optimum-onnx), also for models that are no decoders. It does not offer Mixtral.
""",
        snippet="""\
with apply_patches():
    onnx_export_from_model(model, "folder", task="text-generation-with-past")
""",
    ),
)
