"""A number minus a tensor of integers stops the pass that promotes types.

Symptom: `aten::sub() Expected a value of type 'number' for argument 'b' but instead found type 'FakeTensor'`, for
`1.0 - attention_mask` (ProphetNet, LayoutLM, and much code that comes with checkpoints).
Cause: the decomposition of `rsub` has a number where `sub` wants a tensor. Where types have to be promoted the node is
run once more, and from torch 2.13 on that is not forgiven.
What is done: before the pass, the number becomes a tensor of the type of the result.
Can go: when the pass runs `sub` of a number again.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_insert_type_promotion_nodes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the pass that promotes types replace numbers that something is subtracted from before."""

    def insert_type_promotion_nodes(graph_module: Any) -> Any:
        for module in graph_module.modules():
            for node in module.graph.nodes:
                _correct(module.graph, node)
            module.recompile()
        return original(graph_module)

    return insert_type_promotion_nodes


def _correct(graph: Any, node: Any) -> None:
    """Make the number of `number - tensor` a tensor where the tensor has another type than the result."""
    import torch

    aten = torch.ops.aten
    if node.target is not aten.sub.Tensor or not isinstance(node.args[0], (int, float)):
        return
    number, (_, other) = node.meta["val"].new_empty(()), node.args
    if number.dtype != other.meta["val"].dtype:
        with graph.inserting_before(node):
            made = graph.call_function(aten.scalar_tensor.default, (node.args[0],), {"dtype": number.dtype})
        made.meta["val"] = number
        node.args = (made, other)


SPECS = (
    PatchingSpec(
        id="torch-onnx-reversed-subtraction",
        targets=("torch.onnx._internal.exporter._fx_passes:insert_type_promotion_nodes",),
        replacement=f"{__name__}:patch_insert_type_promotion_nodes",
        requires=("torch>=2.13",),
        reason="A number minus a tensor of integers stops the pass that promotes types: no graph.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/onnx/_internal/fx/passes/type_promotion.py",),
        proofs=("subtracting_gpt",),
        kind="wrap",
    ),
)
