"""A program that checks the elements of a tensor cannot be decomposed.

Symptom: `Piecewise((1, Eq(u2, 1)), (0, True)) is not tracked with proxy`, for the models with images of transformers 5
and for VITS: they check tensors with `torch._check_tensor_all`.
Cause: the truth that is read from the tensor is made a number and compared with 1, and what decomposes the program
knows no number that was a truth.
What is done: before it is decomposed, and behind it for the next time, a program asks for the truth itself.
Can go: with torch 2.9. The exporter of 2.10 gets along with it, and a program of 2.12 has `sym_ite` instead.
"""

import operator
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_decompose_exported_program(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the function that decomposes a program compare no truth with 1."""

    def decompose(ep: Any, *args: Any, **kwargs: Any) -> Any:
        _simplify(ep.graph_module)
        program = original(ep, *args, **kwargs)
        _simplify(program.graph_module)
        return program

    return decompose


def _simplify(module: Any) -> None:
    """Replace each truth that was made a number and compared with 1 by the truth."""
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target is operator.eq and _is_cast(node.args[0]) and node.args[1] == 1:
            node.replace_all_uses_with(node.args[0].args[0])
            module.graph.erase_node(node)
    for node in list(module.graph.nodes):
        if _is_cast(node) and not node.users:
            module.graph.erase_node(node)
    module.recompile()


def _is_cast(item: Any) -> bool:
    from torch.fx.experimental.symbolic_shapes import cast_symbool_to_symint_guardless

    return getattr(item, "target", None) is cast_symbool_to_symint_guardless


SPECS = (
    PatchingSpec(
        id="torch-export-checked-elements",
        targets=("torch.export.exported_program:_decompose_exported_program",),
        replacement=f"{__name__}:patch_decompose_exported_program",
        requires=("torch>=2.7,<2.10",),
        reason="A program that checks the elements of a tensor cannot be decomposed: no graph.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.7.1/torch/fx/passes/runtime_assert.py",
            "https://github.com/pytorch/pytorch/blob/v2.12.0/torch/fx/passes/runtime_assert.py",
        ),
        proofs=("checking_gpt",),
        kind="wrap",
    ),
)
