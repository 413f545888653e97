"""TorchScript: a traced model, saved and loaded; it takes and returns tensors in a row."""

from pathlib import Path
from typing import Any

from exportcompat.matrix.cases import Interface, TensorProgram

from ._flat_model import flat_model
from ._lane import Lane

_FILE = "model.pt"


def capture(subject: Any) -> Any:
    """Trace a model whose cache is put together within it.

    Args:
        subject: a decoder or a `Forward`.
    """
    import torch

    module, tensors = flat_model(subject)
    with torch.no_grad():
        return torch.jit.trace(module, tensors, check_trace=False)


def convert(traced: Any, _: Any, folder: Path) -> None:
    """Save a traced model."""
    traced.save(str(folder / _FILE))


def load(folder: Path) -> TensorProgram:
    """Load a traced model, which needs no class of a cache."""
    import torch

    module = torch.jit.load(str(folder / _FILE))

    def call(tensors: list[Any]) -> list[Any]:
        with torch.no_grad():
            return list(module(*tensors))

    return TensorProgram(folder, Interface.read(folder), call)


LANES = (
    Lane(
        name="torchscript",
        title="TorchScript",
        capture=capture,
        convert=convert,
        load=load,
        how_dynamic="batch, lengths, sizes of images: all dynamic, since a trace knows of no sizes",
        notes="""\
A trace writes down what the sample did, and says nothing of what it has decided by it. `wrapper` takes and returns
tensors alone. What comes of `torch.onnx.export(dynamo=False)`, which goes on from a trace, is under
[Other exporters](exporters.md#torchscript).
""",
        snippet="""\
with apply_patches(), torch.no_grad():
    traced = torch.jit.trace(wrapper, tensors, check_trace=False)
traced.save("model.pt")
""",
    ),
)
