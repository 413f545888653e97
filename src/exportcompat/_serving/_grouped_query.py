"""ONNX Runtime's `GroupQueryAttention` in place of `Attention` with a past.

It takes several new tokens after a past for one sequence only, and refuses others: that is the contract of the file.
The mask goes in as a bias, as it is, so it is right for any padding and any window.
"""

from typing import Any, cast

from ._graph import Writer, depends, replace, size
from ._growing_attention import grow_within
from ._merged_heads import merge_heads
from ._tidy import tidy

MICROSOFT = "com.microsoft"
_HEADS_OF = 8
"""The operator takes heads whose channels are a multiple of this."""


def group_queries(model: Any) -> int:
    """Put the operator wherever it can be, and return how often.

    Args:
        model: an `onnx_ir.Model`; it is changed.
    """
    # A file that was written before has its caches grow in front of the operator.
    grow_within(model)
    merge_heads(model, anyway=True)
    found = [node for node in model.graph if node.op_type == "Attention" and not node.domain and _can_be(node)]
    for node in found:
        _fuse(model.graph, node)
    if found:
        model.opset_imports.setdefault(MICROSOFT, 1)
        tidy(model)
    return len(found)


def _can_be(node: Any) -> bool:
    """Say whether an attention has heads side by side, a cache of keys and values alike, and a mask for every row."""
    if len(node.inputs) != 6 or len(node.outputs) != 3 or "q_num_heads" not in node.attributes:
        return False
    query, key, value, mask, *past = node.inputs
    present = node.outputs[1:]
    is_cache = all(item is not None and item.is_graph_input() for item in past)
    if not is_cache or not all(item.is_graph_output() and not item.uses() for item in present):
        return False
    channels = size(past[0], 3)
    alike = {str(item.shape[1]) if item.shape is not None else None for item in (query, key, value)}
    if channels is None or channels % _HEADS_OF or size(past[1], 3) != channels or len(alike) != 1 or None in alike:
        return False
    return mask is not None and len(mask.shape or ()) == 4 and not depends(mask, present)


def _fuse(graph: Any, node: Any) -> None:
    writer = Writer(graph, node)
    total, lengths = _lengths(writer, node)
    bias = _bias(writer, node.inputs[3], node.inputs[0])
    inputs = [*node.inputs[:3], *node.inputs[4:6], lengths, total, None, None, None, bias]
    attributes = {
        "num_heads": node.attributes["q_num_heads"].value,
        "kv_num_heads": node.attributes["kv_num_heads"].value,
    }
    attributes |= {name: node.attributes[name].value for name in ("scale", "softcap") if name in node.attributes}
    made = writer.node("GroupQueryAttention", inputs, domain=MICROSOFT, outputs=3, attributes=attributes)
    for old, new in zip(node.outputs, made, strict=True):
        replace(old, new)


def _lengths(writer: Writer, node: Any) -> tuple[Any, Any]:
    """Return the length of the whole text, and the place of its last token for each sequence, both int32."""
    import numpy as np

    total = writer.node("Shape", [node.inputs[3]], attributes={"start": 3, "end": 4})
    total = writer.node("Cast", [total], attributes={"to": 6})
    batch = writer.node("Shape", [node.inputs[4]], attributes={"start": 0, "end": 1})
    last = writer.node("Sub", [total, writer.constant(np.array([1], np.int32))])
    return writer.node("Squeeze", [total]), writer.node("Expand", [last, batch])


def _bias(writer: Writer, mask: Any, query: Any) -> Any:
    """Return a mask as what is added to the scores."""
    import ml_dtypes  # NumPy's own `finfo` does not know bfloat16.
    import numpy as np
    import onnx_ir as ir

    if mask.dtype != ir.DataType.BOOL:
        return mask
    kind, limits = query.dtype.numpy(), cast("Any", ml_dtypes.finfo)
    kept, left_out = (writer.constant(np.array(number, kind)) for number in (0, limits(kind).min))
    bias = writer.node("Where", [mask, kept, left_out])
    bias.dtype, bias.shape = query.dtype, mask.shape
    return bias
