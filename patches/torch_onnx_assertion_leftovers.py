"""What a removed assertion was about stays in the graph, and ONNX has no operator for it.

Symptom: `No ONNX function found for <function sym_not>` for the decoders of BART and Marian.
Cause: the exporter removes `_assert_scalar(sym_not(eq(...)))`, and leaves `sym_not(eq(...))`, which has no users.
What is done: nodes without users that compute with sizes are removed as well.
Can go: with torch 2.7; torch 2.8 translates `sym_not`, which the optimizer then removes.
"""

import operator
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def with_leftovers(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the pass that removes assertions made to remove what they alone have asked for."""

    def remove_assertion_nodes(graph_module: Any) -> Any:
        module = original(graph_module)
        for node in reversed(module.graph.nodes):
            if not node.users and _is_about_sizes(node):
                module.graph.erase_node(node)
        module.recompile()
        return module

    return remove_assertion_nodes


def _is_about_sizes(node: Any) -> bool:
    """Say whether a node computes a number or a truth from sizes, by Python's operators or torch's."""
    import torch

    module = getattr(node.target, "__module__", "")
    is_symbolic = module in ("_operator", operator.__name__) or node.target is torch.sym_not
    return node.op == "call_function" and is_symbolic


SPECS = (
    PatchingSpec(
        id="torch-onnx-assertion-leftovers",
        targets=("torch.onnx._internal.exporter._fx_passes:remove_assertion_nodes",),
        replacement=f"{__name__}:with_leftovers",
        requires=("torch>=2.6,<2.8",),
        reason="What a removed assertion asked for stays in the graph, and has no operator in ONNX: no graph.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.6.0/torch/onnx/_internal/exporter/_fx_passes.py",),
        proofs=("bart_decoder",),
        kind="wrap",
    ),
)
