"""Attention of opset 23 reads heads of keys and values that several heads of queries share: they need no copies.

A model with grouped heads repeats its keys and values for torch's attention. In a graph that is an `Unsqueeze`, an
`Expand` and a `Reshape` over the whole past in each layer; the operator `Attention` does the same by indices.
onnxruntime 1.23.0 computes an `Attention` of shared heads wrongly, and 1.23.1 and later rightly.
"""

from typing import Any

from ._graph import numbers, producer, size


def share_heads(model: Any) -> int:
    """Let each `Attention` read keys and values before they are repeated, and return for how many it could be done.

    Args:
        model: an `onnx_ir.Model`; it is changed.
    """
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    count = sum(_shared(node) for node in model.graph.all_nodes() if node.op_type == "Attention" and not node.domain)
    if count:
        RemoveUnusedNodesPass()(model)
    return count


def _shared(node: Any) -> bool:
    """Do it for one node, if both its keys and its values are repeated alike."""
    sources = [_unrepeated(value) for value in node.inputs[1:3]]
    heads = {size(value, 1) for value in node.inputs[1:3]}
    # With a past of its own, or with heads that the node itself counts, it is not what was looked for.
    if None in sources or heads != {size(node.inputs[0], 1)} or None in heads or len(node.inputs) > 4:
        return False
    if size(sources[0], 1) != size(sources[1], 1):
        return False
    for index, source in enumerate(sources, 1):
        node.replace_input_with(index, source)
    return True


def _unrepeated(value: Any) -> Any:
    """Return what `value` repeats head by head, `(batch, heads, sequence, channels)`; None if it does not."""
    reshape = producer(value, "Reshape")
    expand = producer(reshape.inputs[0], "Expand") if reshape else None
    unsqueeze = producer(expand.inputs[0], "Unsqueeze") if expand else None
    if expand is None or unsqueeze is None or numbers(unsqueeze.inputs[1]) != [2]:
        return None
    source, wide = unsqueeze.inputs[0], expand.outputs[0]
    heads, channels, times = size(source, 1), size(source, 3), size(wide, 2, 5)
    if heads is None or channels is None or times is None:
        return None
    # The heads are repeated, and nothing else is: a size of 1 could be expanded along another axis, too.
    kept = (size(wide, 1, 5), size(wide, 4, 5), size(value, 1), size(value, 3), str(wide.shape[3]))
    return source if kept == (heads, channels, heads * times, channels, str(source.shape[2])) else None
