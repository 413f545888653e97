"""What a removed assertion was about stays in the graph, and ONNX has no operator for it.

Symptom: `No ONNX function found for <function sym_not>` for the decoders of BART and Marian; for `aten._is_all_true`
for VITS of transformers 5, which checks tensors with `torch._check_tensor_all`.
Cause: the exporter removes `_assert_scalar(sym_not(eq(...)))`, and leaves `sym_not(eq(...))`, which has no users; of a
check on the elements of a tensor it leaves `_is_all_true(...)` and the number that was read from it.
What is done: nodes without users that compute with sizes, or say that all elements are true, are removed as well.
Can go: the sizes with torch 2.7, as torch 2.8 translates `sym_not`; the rest when torch removes what has no users.
"""

import operator
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_remove_assertion_nodes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the pass that removes assertions remove what they alone have asked for."""

    def remove_assertion_nodes(graph_module: Any) -> Any:
        module = original(graph_module)
        for node in reversed(module.graph.nodes):
            if not node.users and (_is_about_sizes(node) or _is_about_elements(node)):
                module.graph.erase_node(node)
        module.recompile()
        return module

    return remove_assertion_nodes


def _is_about_sizes(node: Any) -> bool:
    """Say whether a node computes a number or a truth from sizes, by Python's operators or torch's."""
    import torch

    module = getattr(node.target, "__module__", "")
    is_symbolic = module in ("_operator", operator.__name__) or node.target in (torch.sym_not, torch.sym_ite)
    return node.op == "call_function" and is_symbolic


def _is_about_elements(node: Any) -> bool:
    """Say whether a node says that all elements of a tensor are true, or reads that as a number."""
    import torch

    if node.target is torch.ops.aten._local_scalar_dense.default:
        return _is_about_elements(node.args[0])
    return node.op == "call_function" and node.target is torch.ops.aten._is_all_true.default


def _spec(name: str, releases: str, version: str, reason: str, *proofs: str) -> PatchingSpec:
    return PatchingSpec(
        id=name,
        targets=("torch.onnx._internal.exporter._fx_passes:remove_assertion_nodes",),
        replacement=f"{__name__}:patch_remove_assertion_nodes",
        requires=(f"torch{releases}",),
        reason=f"What a removed {reason} stays in the graph, and has no operator in ONNX: no graph.",
        upstream=(f"https://github.com/pytorch/pytorch/blob/v{version}/torch/onnx/_internal/exporter/_fx_passes.py",),
        proofs=proofs,
        kind="wrap",
    )


SPECS = (
    _spec("torch-onnx-assertion-leftovers", ">=2.7,<2.8", "2.7.1", "assertion asked for", "checking_gpt"),
    _spec("torch-onnx-check-leftovers", ">=2.8", "2.15.0", "check of elements asked for", "checking_gpt"),
)
