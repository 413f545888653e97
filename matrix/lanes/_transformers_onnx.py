"""transformers' own `OnnxExporter`, and its file in ONNX Runtime."""

from importlib import import_module
from pathlib import Path
from typing import Any

from exportcompat.matrix.cases import Interface, Sample, TensorProgram

from ._lane import Lane

_FILE = "model.onnx"


def capture(subject: Any) -> Any:
    """Export a model with every axis dynamic that torch can keep so.

    Args:
        subject: a decoder or a `Forward`.
    """
    exporters: Any = import_module("transformers.exporters")
    config = exporters.OnnxConfig(dynamic=True)
    return exporters.OnnxExporter().export(subject.model, subject.sample(Sample()), config=config)


def convert(exported: Any, _: Any, folder: Path) -> None:
    """Write the file."""
    ir: Any = import_module("onnx_ir")
    # To 5.22 there is no object around the model.
    ir.save(getattr(exported, "program", exported), str(folder / _FILE))


def load(folder: Path) -> TensorProgram:
    """Open the file in ONNX Runtime."""
    import torch

    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(str(folder / _FILE), options, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    # Its caches have private attributes among their tensors.
    wanted = [item.name for item in session.get_outputs() if ".layers." not in item.name or "._" not in item.name]

    def call(tensors: list[Any]) -> list[Any]:
        feeds = {name: tensor.contiguous().numpy() for name, tensor in zip(names, tensors, strict=True)}
        return [torch.from_numpy(found) for found in session.run(wanted, feeds)]

    return TensorProgram(folder, Interface.read(folder), call)


LANES = (
    Lane(
        name="transformers-onnx",
        title="transformers' `OnnxExporter`",
        capture=capture,
        convert=convert,
        load=load,
        packages=("onnx", "onnxscript", "onnxruntime"),
        how_dynamic="every axis that stays dynamic with `OnnxConfig(dynamic=True)`",
        notes="""\
`import exportcompat.adapters.in_transformers` does the same for every export of its exporters; see
[Other exporters](exporters.md#transformers-own-exporters).
""",
        snippet="""\
with apply_patches():
    exported = OnnxExporter().export(model, inputs, config=OnnxConfig(dynamic=True))
exported.save_pretrained("folder")
""",
    ),
)
