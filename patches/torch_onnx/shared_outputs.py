"""An output that is an input, or another output, takes its name away.

Symptom: the file of a model that hands an argument back has an input of another name than was asked for, such as
`mask_orig` (Qwen2-Audio returns its attention mask).
Cause: inputs and outputs are renamed one after the other, and one value has one name.
What is done: such an output is a copy, an `Identity`, before it gets its name.
Can go: with torch 2.10.
"""

from collections.abc import Callable, Sequence
from typing import Any

from exportcompat.registry import PatchingSpec


def with_copies(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the pass that renames outputs, made to give each of them a value of its own before."""

    def rename_outputs(model: Any, new_names: Sequence[str]) -> Any:
        taken = list(model.graph.inputs)
        for place, value in enumerate(model.graph.outputs):
            if any(value is other for other in taken):
                model.graph.outputs[place] = _copy(model.graph, value)
            taken.append(value)
        return original(model, new_names)

    return rename_outputs


def _copy(graph: Any, value: Any) -> Any:
    from onnxscript import ir

    node = ir.Node("", "Identity", [value])
    graph.append(node)
    copied = node.outputs[0]
    copied.shape, copied.type = value.shape, value.type
    return copied


SPECS = (
    PatchingSpec(
        id="torch-onnx-shared-outputs",
        targets=("torch.onnx._internal.exporter._ir_passes:rename_outputs",),
        replacement=f"{__name__}:with_copies",
        requires=("torch>=2.6,<2.11", "onnxscript>=0.1"),
        reason="An output that is an input takes its name away: wrong names.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.10.0/torch/onnx/_internal/exporter/_ir_passes.py",),
        proofs=("qwen2_audio",),
        kind="wrap",
    ),
)
