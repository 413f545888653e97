"""Olive: its `OnnxConversion` by way of `torch.onnx.export(dynamo=True)`, and the file in ONNX Runtime."""

from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

from ._lane import Lane
from ._whole_export import CASES, convert, load

_OPTIONS = {"use_dynamo_exporter": True, "torch_dtype": "float32"}


def capture(subject: Any) -> "TemporaryDirectory[str]":
    """Export a saved decoder into a folder, as it captures and converts in one step.

    Args:
        subject: a decoder.
    """
    olive: Any = import_module("olive.passes.olive_pass")
    conversion: Any = import_module("olive.passes.onnx.conversion").OnnxConversion
    handler: Any = import_module("olive.model").HfModelHandler
    made = TemporaryDirectory()
    with TemporaryDirectory() as source:
        subject.model.save_pretrained(source)
        step = olive.create_pass_from_dict(conversion, _OPTIONS, disable_search=True)
        step.run(handler(model_path=source, task="text-generation-with-past"), made.name)
    return made


LANES = (
    Lane(
        name="olive",
        title="Olive, `OnnxConversion`",
        capture=capture,
        convert=convert,
        load=load,
        packages=("olive-ai", "onnx", "onnxscript", "onnxruntime"),
        cases=(*CASES, "mixtral"),
        how_dynamic="batch and lengths",
        notes="""\
`use_dynamo_exporter` is what exports through `torch.export`. A [patch file](recipes/olive-ai-0.13.0.patch) puts the
scope inside of it; see [Other exporters](exporters.md#olive).
""",
        snippet="""\
with apply_patches():
    conversion = create_pass_from_dict(OnnxConversion, {"use_dynamo_exporter": True}, disable_search=True)
    conversion.run(HfModelHandler("MODEL_DIR", task="text-generation-with-past"), "folder")
""",
    ),
)
