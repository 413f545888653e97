"""What a mask is made of without detours: padding read as it is, and truth values that are no wide integers.

transformers asks for the padding of each sequence and token by a function of two indices. In a graph that is a table of
all pairs of indices and a `GatherND`, though all of them in their order are the padding itself. Whether a row of the
mask has any true element is asked of a copy in int64, eight times as large as the mask.
"""

from typing import Any

from ._graph import Writer, attribute, numbers, producer, replace


def read_masks_directly(model: Any) -> int:
    """Replace both wherever they are, and return how often.

    Args:
        model: an `onnx_ir.Model` whose axes have their names; it is changed.
    """
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    nodes = [node for node in model.graph if not node.domain]
    done = sum(_looked_up(model.graph, node) for node in nodes if node.op_type == "GatherND")
    done += sum(_narrowed(node) for node in nodes if node.op_type == "ReduceMax")
    if done:
        RemoveUnusedNodesPass()(model)
    return done


def _looked_up(graph: Any, node: Any) -> bool:
    """Replace a lookup of all pairs of a table in their order, `(rows, 1, 1, columns)`."""
    import numpy as np

    table, places = node.inputs
    pairs = producer(places, "Concat")
    shape = None if table.shape is None else [str(size) for size in table.shape]
    batch_dims = attribute(node, "batch_dims", 0)
    if pairs is None or shape is None or len(shape) != 2 or len(pairs.inputs) != 2 or batch_dims:
        return False
    if pairs.attributes["axis"].value not in (-1, 4) or len(node.outputs[0].shape or ()) != 4:
        return False
    if [_counted(value, axis) for value, axis in zip(pairs.inputs, (0, 3), strict=True)] != shape:
        return False
    writer = Writer(graph, node)
    axes = writer.constant(np.array([1, 2], np.int64))
    replace(node.outputs[0], writer.node("Unsqueeze", [table, axes], node.outputs[0]))
    return True


def _counted(value: Any, axis: int) -> str | None:
    """Return how long a row of all numbers from 0 on is, if it is laid along one of four axes and expanded."""
    last = producer(value, "Unsqueeze")
    expand = producer(last.inputs[0], "Expand") if last is not None and numbers(last.inputs[1]) == [-1] else None
    value = None if expand is None else expand.inputs[0]
    if value is None or value.shape is None:
        return None
    before = [index for index, size in enumerate(value.shape) if size != 1]
    # With fewer axes it is expanded as if it had more in front.
    if before != [axis - (4 - len(value.shape))]:
        return None
    while (unsqueeze := producer(value, "Unsqueeze")) is not None:
        value = unsqueeze.inputs[0]
    row = producer(value, "Range")
    if row is None or [numbers(row.inputs[0]), numbers(row.inputs[2])] != [[0], [1]] or len(value.shape or ()) != 1:
        return None
    return str(value.shape[0])


def _narrowed(node: Any) -> bool:
    """Let the largest of truth values be found among bytes."""
    import onnx_ir as ir

    cast, uses = producer(node.inputs[0], "Cast"), list(node.outputs[0].uses())
    back = uses[0].node if len(uses) == 1 else None
    if cast is None or back is None or back.op_type != "Cast" or node.outputs[0].is_graph_output():
        return False
    is_truth = cast.inputs[0].dtype == ir.DataType.BOOL and back.attributes["to"].value == int(ir.DataType.BOOL)
    if not is_truth or cast.attributes["to"].value != int(ir.DataType.INT64) or len(cast.outputs[0].uses()) != 1:
        return False
    cast.attributes["to"] = ir.AttrInt64("to", int(ir.DataType.UINT8))
    for value in (cast.outputs[0], node.outputs[0]):
        value.dtype = ir.DataType.UINT8
    return True
