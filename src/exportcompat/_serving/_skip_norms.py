"""ONNX Runtime's `SkipSimplifiedLayerNormalization` for a sum and the norm of it: one pass over the states, not two."""

from typing import Any

from ._graph import Writer, attribute, producer, replace
from ._grouped_query import MICROSOFT


def join_sums_with_norms(model: Any) -> int:
    """Put the operator wherever it can be, and return how often.

    Args:
        model: an `onnx_ir.Model`; it is changed.
    """
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    done = sum(_joined(model.graph, node) for node in list(model.graph) if node.op_type == "RMSNormalization")
    if done:
        model.opset_imports.setdefault(MICROSOFT, 1)
        RemoveUnusedNodesPass()(model)
    return done


def _joined(graph: Any, norm: Any) -> bool:
    total, scale = norm.inputs[0], norm.inputs[1]
    add = producer(total, "Add")
    shapes = (
        [None if value.shape is None else [str(size) for size in value.shape] for value in add.inputs] if add else []
    )
    # The operator takes two states of one shape, and the norm is over the last axis.
    is_alike = len(shapes) == 2 and shapes[0] is not None and shapes[0] == shapes[1] and len(shapes[0]) == 3
    axis = attribute(norm, "axis", -1)
    stash = attribute(norm, "stash_type", 1)
    if not is_alike or axis not in (-1, 2) or stash != 1 or total.is_graph_output():
        return False
    if not scale.is_initializer() or len(scale.shape) != 1:
        return False
    # Others may read the sum before the norm does.
    writer = Writer(graph, add)
    attributes = {"epsilon": attribute(norm, "epsilon", 1e-5)}
    made = writer.node(
        "SkipSimplifiedLayerNormalization",
        [*add.inputs, scale],
        total,
        domain=MICROSOFT,
        outputs=4,
        attributes=attributes,
    )
    replace(norm.outputs[0], made[0])
    replace(total, made[3])
    return True
