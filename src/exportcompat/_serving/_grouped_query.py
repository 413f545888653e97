"""ONNX Runtime's `GroupQueryAttention` in place of `Attention` and of what prepares its inputs.

It appends to the cache itself, and takes and gives `(batch, sequence, heads * channels)`, so nothing is transposed.
It takes several new tokens after a past for one sequence only, and refuses others: that is the contract of the file.
The mask goes in as a bias, as it is, so it is right for any padding and any window.
"""

from dataclasses import dataclass
from typing import Any

from ._graph import Writer, depends, is_swap, producer, replace, size
from ._growing_attention import grow_within

MICROSOFT = "com.microsoft"
_HEADS_OF = 8
"""The operator takes heads whose channels are a multiple of this."""


@dataclass(frozen=True)
class _Attention:
    """What is read off an `Attention` whose keys and values grow.

    Attributes:
        node: the operator.
        query: `(batch, heads, sequence, channels)`.
        new: new keys and values, `(batch, kv_heads, sequence, channels)`.
        past: keys and values before, inputs of the graph.
        present: keys and values afterwards, outputs of the graph.
        mask: `(batch or 1, heads or 1, sequence, total)`, of truth values or a bias.
    """

    node: Any
    query: Any
    new: tuple[Any, Any]
    past: tuple[Any, Any]
    present: tuple[Any, Any]
    mask: Any


def group_queries(model: Any) -> int:
    """Put the operator wherever it can be, and return how often.

    Args:
        model: an `onnx_ir.Model`; it is changed.
    """
    from onnx_ir.passes.common import CommonSubexpressionEliminationPass, RemoveUnusedNodesPass

    # A file that was written before has its caches grow in front of the operator.
    grow_within(model)
    found = [item for node in list(model.graph) if (item := _read(node)) is not None]
    for item in found:
        _fuse(model.graph, item)
    if found:
        model.opset_imports.setdefault(MICROSOFT, 1)
        RemoveUnusedNodesPass()(model)
        CommonSubexpressionEliminationPass()(model)
    return len(found)


def _read(node: Any) -> _Attention | None:
    found = _with_past(node)
    if found is None:
        return None
    query, new, past, present, mask = found
    key, value = new
    alike = query.shape is not None and str(query.shape[2]) == str(key.shape[2]) == str(value.shape[2])
    channels = size(query, 3)
    if not alike or channels is None or channels % _HEADS_OF or {size(key, 3), size(value, 3)} != {channels}:
        return None
    heads, kv_heads = size(query, 1), size(key, 1)
    if heads is None or kv_heads is None or kv_heads != size(value, 1) or depends(mask, present):
        return None
    return _Attention(node, query, new, past, present, mask)


def _with_past(node: Any) -> tuple[Any, ...] | None:
    """Return query, new, past and present keys and values, and the mask of an attention that `grow_within` made."""
    if node.op_type != "Attention" or node.domain or len(node.inputs) != 6 or len(node.outputs) != 3:
        return None
    query, key, value, mask, *past = node.inputs
    present = node.outputs[1:]
    ranks = {len(item.shape) if item is not None and item.shape is not None else None for item in node.inputs}
    is_cache = all(item.is_graph_output() and not item.uses() for item in present)
    is_input = all(item is not None and item.is_graph_input() for item in past)
    return (query, (key, value), tuple(past), tuple(present), mask) if ranks == {4} and is_cache and is_input else None


def _fuse(graph: Any, item: _Attention) -> None:
    writer = Writer(graph, item.node)
    total, lengths = _lengths(writer, item)
    inputs = [
        *(_merged(writer, value) for value in (item.query, *item.new)), *item.past, lengths, total,
        None, None, None, _bias(writer, item.mask, item.query),
    ]  # fmt: skip
    attributes = {"num_heads": size(item.query, 1), "kv_num_heads": size(item.new[0], 1)}
    attributes |= {
        name: item.node.attributes[name].value for name in ("scale", "softcap") if name in item.node.attributes
    }
    made, *present = writer.node("GroupQueryAttention", inputs, domain=MICROSOFT, outputs=3, attributes=attributes)
    for old, new in zip(item.present, present, strict=True):
        replace(old, new)
    _unmerge(graph, item, made)


def _lengths(writer: Writer, item: _Attention) -> tuple[Any, Any]:
    """Return the length of the whole text, and the place of its last token for each sequence, both int32."""
    import numpy as np

    total = writer.node("Shape", [item.mask], attributes={"start": 3, "end": 4})
    total = writer.node("Cast", [total], attributes={"to": 6})
    batch = writer.node("Shape", [item.past[0]], attributes={"start": 0, "end": 1})
    last = writer.node("Sub", [total, writer.constant(np.array([1], np.int32))])
    return writer.node("Squeeze", [total]), writer.node("Expand", [last, batch])


def _bias(writer: Writer, mask: Any, query: Any) -> Any:
    """Return a mask as what is added to the scores."""
    import ml_dtypes  # NumPy's own `finfo` does not know bfloat16.
    import numpy as np
    import onnx_ir as ir

    if mask.dtype != ir.DataType.BOOL:
        return mask
    kind = query.dtype.numpy()
    kept, left_out = (writer.constant(np.array(number, kind)) for number in (0, ml_dtypes.finfo(kind).min))
    bias = writer.node("Where", [mask, kept, left_out])
    bias.dtype, bias.shape = query.dtype, mask.shape
    return bias


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
    if reshape is not None and size(reshape.inputs[0], 2, 3) == width:
        return reshape.inputs[0]
    if split is None:
        split = writer.node("Transpose", [value], attributes={"perm": [0, 2, 1, 3]})
    made = writer.node("Reshape", [split, writer.constant(np.array([0, 0, width], np.int64))])
    made.dtype = value.dtype
    return made


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
        axis = norm.attributes["axis"].value if "axis" in norm.attributes else -1
        if axis not in (-1, 3) or len(norm.inputs[1].shape or (0, 0)) != 1:
            return None
        value = norm.inputs[0]
    swap = producer(value, "Transpose")
    return swap if is_swap(swap) else None


def _unmerge(graph: Any, item: _Attention, made: Any) -> None:
    """Give the readers of the attention its result: merged to those that merge it, and else with its heads."""
    import numpy as np

    old = item.node.outputs[0]
    heads, channels = item.query.shape[1], item.query.shape[3]
    zeroed = _rows_zeroed(old)
    merge = _merge_of(zeroed.outputs[0] if zeroed else old, heads * channels)
    if merge is not None:
        writer = Writer(graph, merge)
        if zeroed is not None:
            rows = writer.node("Squeeze", [zeroed.inputs[0], writer.constant(np.array([1], np.int64))])
            made = writer.node("Where", [rows, made, zeroed.inputs[2]])
        replace(merge.outputs[0], made)
        return
    writer = Writer(graph, item.node)
    split = writer.node("Reshape", [made, writer.constant(np.array([0, 0, heads, channels], np.int64))])
    replace(old, writer.node("Transpose", [split], attributes={"perm": [0, 2, 1, 3]}))


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
