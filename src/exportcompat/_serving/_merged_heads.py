"""Attention of opset 23 takes heads side by side, `(batch, sequence, heads * channels)`, as products make them.

torch's attention takes them apart, `(batch, heads, sequence, channels)`, so that in a graph queries, keys, values and
results are transposed each. The operator finds its heads in what is not.
"""

from typing import Any

from ._graph import Writer, attribute, has_same_rows, is_swap, producer, replace, size
from ._tidy import tidy


def merge_heads(model: Any, *, anyway: bool = False) -> int:
    """Give each `Attention` heads side by side, and return for how many it could be done.

    Args:
        model: an `onnx_ir.Model`; it is changed.
        anyway: transpose where nothing has been transposed, which makes the graph no faster.
    """
    nodes = [node for node in model.graph if node.op_type == "Attention" and not node.domain]
    found = [node for node in nodes if _has_heads(node) and (anyway or _is_transposed(node))]
    for node in found:
        _merge(model.graph, node)
    if found:
        tidy(model)
    return len(found)


def _has_heads(node: Any) -> bool:
    """Say whether heads and channels of queries, keys and values are axes of their own, and numbers."""
    return all(size(value, axis) is not None for value in node.inputs[:3] for axis in (1, 3))


def _is_transposed(node: Any) -> bool:
    """Say whether all of them come from a transposition, and the result goes to one."""
    taken = [_swap_of(_rotated(value)) for value in node.inputs[:3]]
    return None not in taken and _merge_of_result(node)[1] is not None


def _merge(graph: Any, node: Any) -> None:
    import onnx_ir as ir

    writer = Writer(graph, node)
    inputs = [*(_merged(writer, value) for value in node.inputs[:3]), *node.inputs[3:]]
    heads = {"q_num_heads": size(node.inputs[0], 1), "kv_num_heads": size(node.inputs[1], 1)}
    attributes = {**{name: item.value for name, item in node.attributes.items()}, **heads}
    made = ir.node("Attention", inputs, attributes=attributes, num_outputs=len(node.outputs))
    graph.insert_before(node, made)
    for old, new in zip(node.outputs[1:], made.outputs[1:], strict=True):
        replace(old, new)
    _unmerge(graph, node, made.outputs[0])


def _rotated(value: Any) -> Any:
    """Return what positions were put into, or the value itself."""
    rotation = producer(value, "RotaryEmbedding")
    return value if rotation is None else rotation.inputs[0]


def _merged(writer: Writer, value: Any) -> Any:
    """Return `(batch, heads, sequence, channels)` as `(batch, sequence, heads * channels)`, rotated after the merge."""
    import numpy as np

    rotation = producer(value, "RotaryEmbedding")
    if rotation is not None and _swap_of(rotation.inputs[0]) is not None:
        inner = _merged(writer, rotation.inputs[0])
        attributes = {name: item.value for name, item in rotation.attributes.items()}
        attributes["num_heads"] = size(value, 1)
        return writer.node("RotaryEmbedding", [inner, *rotation.inputs[1:]], inner, attributes=attributes)
    split = _split(writer, value)
    width = value.shape[1] * value.shape[3]
    reshape = producer(split, "Reshape")
    if reshape is not None and size(reshape.inputs[0], 2, 3) == width and has_same_rows(reshape.inputs[0], split):
        return reshape.inputs[0]
    if split is None:
        split = writer.node("Transpose", [value], attributes={"perm": [0, 2, 1, 3]})
    made = writer.node("Reshape", [split, writer.constant(np.array([0, 0, width], np.int64))])
    made.dtype, made.shape = value.dtype, _joined(value, width)
    return made


def _joined(value: Any, width: int) -> Any:
    import onnx_ir as ir

    return ir.Shape([value.shape[0], value.shape[2], width])


def _split(writer: Writer, value: Any) -> Any:
    """Return `(batch, sequence, heads, channels)` of what is a transposed one, or the norm of its channels, or None."""
    swap, norm = _swap_of(value), producer(value, "RMSNormalization")
    split = None if swap is None else swap.inputs[0]
    if split is None or norm is None:
        return split
    attributes = {name: item.value for name, item in norm.attributes.items()}
    return writer.node("RMSNormalization", [split, norm.inputs[1]], split, attributes=attributes)


def _swap_of(value: Any) -> Any:
    """Return the node that has exchanged heads and sequence, maybe before a norm of the channels; None for others."""
    norm = producer(value, "RMSNormalization")
    if norm is not None:
        axis = attribute(norm, "axis", -1)
        if axis not in (-1, 3) or len(norm.inputs[1].shape or (0, 0)) != 1:
            return None
        value = norm.inputs[0]
    swap = producer(value, "Transpose")
    return swap if is_swap(swap) else None


def _unmerge(graph: Any, node: Any, made: Any) -> None:
    """Give the readers of the attention its result: merged to those that merge it, and else with its heads."""
    import numpy as np

    old, heads, channels = node.outputs[0], node.inputs[0].shape[1], node.inputs[2].shape[3]
    zeroed, merge = _merge_of_result(node)
    if merge is not None:
        split, merged = merge.inputs[0], merge.outputs[0]
        made.dtype, made.shape = merged.dtype, _joined(old, merged.shape[2])
        writer = Writer(graph, merge)
        if zeroed is not None:
            rows = writer.node("Squeeze", [zeroed.inputs[0], writer.constant(np.array([1], np.int64))])
            made = writer.node("Where", [rows, made, zeroed.inputs[2]], made)
        if not has_same_rows(split, merged):
            # Blocks of a sequence, which are rows of a batch in between, are put together again.
            made = writer.node("Reshape", [made, merge.inputs[1]])
        replace(merged, made)
        return
    made.dtype = old.dtype
    writer = Writer(graph, node)
    split = writer.node("Reshape", [made, writer.constant(np.array([0, 0, heads, channels], np.int64))])
    replace(old, writer.node("Transpose", [split], attributes={"perm": [0, 2, 1, 3]}))


def _merge_of_result(node: Any) -> tuple[Any, Any]:
    """Return what zeroes rows of an attention, and what makes `(batch, sequence, width)` of it; None for neither."""
    old, width = node.outputs[0], node.inputs[0].shape[1] * node.inputs[2].shape[3]
    zeroed = _rows_zeroed(old)
    return zeroed, _merge_of(zeroed.outputs[0] if zeroed else old, width)


def _rows_zeroed(value: Any) -> Any:
    """Return the node that zeroes rows of an attention, by a condition `(batch, 1, sequence, 1)`."""
    reader = _only_reader(value, "Where")
    is_rows = reader is not None and reader.inputs[1] is value and size(reader.inputs[0], 1) == 1
    return reader if is_rows and size(reader.inputs[0], 3) == 1 else None


def _merge_of(value: Any, width: int) -> Any:
    """Return the node that makes `(batch, sequence, width)` of `(batch, heads, sequence, channels)`."""
    swap = _only_reader(value, "Transpose")
    merge = _only_reader(swap.outputs[0], "Reshape") if is_swap(swap) else None
    return merge if merge is not None and size(merge.outputs[0], 2, 3) == width else None


def _only_reader(value: Any, operator: str) -> Any:
    uses = list(value.uses())
    reader = uses[0].node if len(uses) == 1 and not value.is_graph_output() else None
    return reader if reader is not None and reader.op_type == operator and not reader.domain else None
