"""What a change of a graph ends with."""

from typing import Any


def tidy(model: Any) -> None:
    """Drop the nodes that nothing reads, compute once what is computed twice, and give each value a name of its own.

    What is put into a graph is numbered on, without a look at the constants and values of loops, which have such names.

    Args:
        model: an `onnx_ir.Model`; it is changed.
    """
    from onnx_ir.passes import common

    common.RemoveUnusedNodesPass()(model)
    common.CommonSubexpressionEliminationPass()(model)
    # onnx-ir has it from 0.1.6 on.
    if fix := getattr(common, "NameFixPass", None):
        fix()(model)
