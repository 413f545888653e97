"""Type promotion meets a symbolic size where torch wants a number.

Symptom: `SymIntArrayRef expected to contain only concrete integers` for BLOOM, whose `baddbmm` expands the alibi to a
symbolic batch. The model exports with `torch.export`; the ONNX exporter stops behind it.
Cause: the pass that inserts casts runs each node of the graph once more, without torch's dispatcher for Python. What
a shape function written in Python calls is then run by C++, which knows no symbolic sizes.
What is done: the nodes are run with that dispatcher.
Can go: with torch 2.6; torch 2.7 has it on (run on 2.6.0 and 2.7.1).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_run_node(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `run_node` run a node with the dispatcher for Python."""

    def run_node(self: Any, node: Any) -> Any:
        from torch._dispatch.python import enable_python_dispatcher

        with enable_python_dispatcher():
            return original(self, node)

    return run_node


SPECS = (
    PatchingSpec(
        id="torch-onnx-type-promotion",
        targets=("torch.onnx._internal.fx.passes.type_promotion:_TypePromotionInterpreter.run_node",),
        replacement=f"{__name__}:patch_run_node",
        requires=("torch>=2.6,<2.7",),
        reason="The pass that inserts casts cannot run what has symbolic sizes, as baddbmm of BLOOM: no graph.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.6.0/torch/onnx/_internal/fx/passes/type_promotion.py",
            "https://github.com/pytorch/pytorch/blob/v2.7.1/torch/onnx/_internal/fx/passes/type_promotion.py",
        ),
        proofs=("bloom",),
        kind="wrap",
    ),
)
