"""OpenVINO: `openvino.convert_model` of an exported program, saved, and run by its plug-in for the CPU."""

from importlib import import_module
from pathlib import Path
from typing import Any

from exportcompat.matrix.cases import Interface, TensorProgram, by_torch_export

from ._batched_experts import COST, LINE, batched_experts
from ._lane import Lane

_FILE = "model.xml"


def capture(subject: Any) -> Any:
    """Capture a model without `scan` for its experts."""
    with batched_experts(subject.model):
        return by_torch_export.capture(subject)


def convert(program: Any, _: Any, folder: Path) -> None:
    """Convert a program and save it with weights as they are."""
    openvino: Any = import_module("openvino")
    openvino.save_model(openvino.convert_model(program), folder / _FILE, compress_to_fp16=False)


def load(folder: Path) -> TensorProgram:
    """Compile a saved model for the CPU, computing in float32."""
    import torch

    openvino: Any = import_module("openvino")
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = openvino.Core().compile_model(folder / _FILE, "CPU", settings)
    request = compiled.create_infer_request()

    def call(tensors: list[Any]) -> list[Any]:
        found = request.infer([tensor.contiguous().numpy() for tensor in tensors], share_outputs=False)
        # What a request returns is overwritten by the next one.
        return [torch.from_numpy(found[index].copy()) for index in range(len(compiled.outputs))]

    return TensorProgram(folder, Interface.read(folder), call)


LANES = (
    Lane(
        name="openvino",
        title="OpenVINO",
        capture=capture,
        convert=convert,
        load=load,
        packages=("openvino",),
        how_dynamic="batch, lengths, sizes of images: all dynamic",
        notes=COST,
        snippet=f"""\
{LINE}with apply_patches(), torch.no_grad():
    program = torch.export.export(model, (), kwargs, dynamic_shapes=shapes, strict=False)
    ov_model = openvino.convert_model(program)
openvino.save_model(ov_model, "model.xml", compress_to_fp16=False)
compiled = openvino.Core().compile_model("model.xml", "CPU")
""",
    ),
)
