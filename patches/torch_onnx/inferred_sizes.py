"""A size that is left to be inferred cannot be, in a call in which there is nothing.

Symptom: a model with images runs in every call but those without images: `The input tensor cannot be reshaped to the
requested shape`, for `view(batch, -1, heads, size)` in the vision encoder of LLaVA.
Cause: `view` becomes ONNX' `Reshape` with the same -1, and nothing can be inferred where another size is 0. The
optimizer of onnxscript writes the size that it knows from 0.7.2 on.
What is done: before the translation, -1 becomes the size that the capture has found, where that is a number.
Can go: with onnxscript 0.7.1 (run on 0.2.1, 0.4.0 and 0.7.2). From torch 2.13 on, that and older ones are not mended.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_type_promotion(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the first pass on the captured graph, made to write sizes that are known before."""

    def insert_type_promotion_nodes(graph_module: Any) -> Any:
        for module in graph_module.modules():
            for node in module.graph.nodes:
                _write_sizes(node)
            module.recompile()
        return original(graph_module)

    return insert_type_promotion_nodes


def _write_sizes(node: Any) -> None:
    """Replace the -1 of a `view` by its size, if that is a number."""
    import torch

    aten = torch.ops.aten
    if node.target not in (aten.view.default, aten.reshape.default, aten._unsafe_view.default):
        return
    x, wanted = node.args
    known = [-1 if isinstance(size, torch.SymInt) else size for size in node.meta["val"].shape]
    written = [found if size == -1 else size for size, found in zip(wanted, known, strict=True)]
    node.args = (x, written)


SPECS = (
    PatchingSpec(
        id="torch-onnx-inferred-sizes",
        targets=("torch.onnx._internal.exporter._fx_passes:insert_type_promotion_nodes",),
        replacement=f"{__name__}:patch_type_promotion",
        requires=("torch>=2.6,<2.13", "onnxscript<0.7.2"),
        reason="A size of -1 cannot be inferred in a call without images: the file does not run there.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/v0.4.0/onnxscript/function_libs/torch_lib/ops/core.py",
        ),
        proofs=("llava",),
        kind="wrap",
    ),
)
