"""torch.onnx cannot write a program that returns a number beside its tensors.

Symptom: `AttributeError: 'int' object has no attribute 'name'`, `Error when translating node return (...)`, for
MaskFormer's Swin, which returns the sizes of its maps of features.
Cause: `_handle_output_node` asks every result for the name of its node, and a number has none. What comes after it
knows constants, and leaves them out.
What is done: numbers and texts that are constant are no results of the file, as None is not, and have none of the names
that `output_names` gives. Sizes that vary are nodes, and stay. A program of constants alone is refused as before.
Can go: when `_handle_output_node` leaves out what is no node.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_handle_output_node(original: Callable[..., Any]) -> Callable[..., Any]:
    """Leave constant results out."""

    def handle_output_node(node: Any, node_name_to_values: Any, graph_like: Any) -> Any:
        results = node.args[0]
        if isinstance(results, Sequence):
            named = [item for item in results if not isinstance(item, (int, float, str))]
            # The original reads a name and the arguments alone, and the program stays as it is.
            node = SimpleNamespace(name=node.name, args=(named,)) if 0 < len(named) < len(results) else node
        return original(node, node_name_to_values, graph_like)

    return handle_output_node


SPECS = (
    PatchingSpec(
        id="torch-onnx-constant-outputs",
        targets=("torch.onnx._internal.exporter._core:_handle_output_node",),
        replacement=f"{__name__}:patch_handle_output_node",
        requires=("torch>=2.13",),
        reason="torch.onnx asks every result for its name, and a number has none: no file.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/onnx/_internal/exporter/_core.py",),
        proofs=("maskformer_swin",),
        kind="wrap",
    ),
)
