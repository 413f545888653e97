"""A `Reshape` into the shape that there is already does nothing, and hides what is on its two sides from each other."""

from typing import Any

from ._graph import replace


def drop_idle_reshapes(model: Any) -> int:
    """Take out each `Reshape` whose result has the sizes of its input, and return how many there were.

    Args:
        model: an `onnx_ir.Model` whose axes have their names; it is changed.
    """
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    found = [node for node in model.graph if node.op_type == "Reshape" and not node.domain and _is_idle(node)]
    for node in found:
        replace(node.outputs[0], node.inputs[0])
    if found:
        RemoveUnusedNodesPass()(model)
    return len(found)


def _is_idle(node: Any) -> bool:
    sizes = [_sizes(value) for value in (node.inputs[0], node.outputs[0])]
    # An output of the graph keeps its name, and an input cannot be renamed.
    is_free = not node.outputs[0].is_graph_output()
    return is_free and sizes[0] is not None and sizes[0] == sizes[1]


def _sizes(value: Any) -> list[str] | None:
    """Return the sizes of all axes as text; None if one has neither a number nor a name."""
    if value.shape is None:
        return None
    sizes = [size if isinstance(size, int) else size.value for size in value.shape]
    return None if None in sizes else [str(size) for size in sizes]
