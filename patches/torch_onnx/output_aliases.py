"""An input that a model hands back loses its name to the output.

Symptom: the file of a model that returns an argument as it is has an input `mask_orig` where the model takes `mask`;
with names for the inputs alone ONNX Runtime refuses it: `Duplicate definition of name (attention_mask)` (Qwen2-Audio,
exported from a text without a mask).
Cause: onnx-ir makes such an output a copy, gives it the name of the input, and calls the input `..._orig`.
What is done: the input keeps its name, and the copy is called `output_...`, as `export` calls it.
Can go: when onnx-ir names the copy.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_alias_direct_outputs(original: Callable[..., Any]) -> Callable[..., Any]:
    """Give the inputs their names back, and the copies of them others."""

    def alias_direct_outputs(graph_like: Any) -> Any:
        names = {id(graph): [(value, value.name) for value in graph.inputs] for graph in _graphs(graph_like)}
        made = original(graph_like)
        for graph in _graphs(graph_like):
            for value, name in names[id(graph)]:
                if value.name != name:
                    _exchange(graph, value, name)
        return made

    return alias_direct_outputs


def _graphs(graph_like: Any) -> tuple[Any, ...]:
    return (graph_like, *graph_like.subgraphs())


def _exchange(graph: Any, value: Any, name: str) -> None:
    """Give the copies of an input, which are outputs, a name of their own, and the input its name."""
    for output in graph.outputs:
        if output.name == name and output is not value:
            output.name = f"output_{name}"
    value.name = name


SPECS = (
    PatchingSpec(
        id="torch-onnx-output-aliases",
        targets=("onnx_ir.passes.common.output_fix:_alias_direct_outputs",),
        replacement=f"{__name__}:patch_alias_direct_outputs",
        requires=("torch>=2.6", "onnx-ir>=0.1.13"),
        reason="An input that is a result loses its name, and with names for the inputs alone no file can be loaded.",
        upstream=("https://github.com/onnx/ir-py/blob/main/src/onnx_ir/passes/common/output_fix.py",),
        proofs=("returned_mask",),
        kind="wrap",
    ),
)
