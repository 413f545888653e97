"""Attention of opset 23 appends new keys and values to the past itself, without a `Concat` of each in front of it."""

from typing import Any

from ._graph import producer, replace, size


def grow_within(model: Any) -> int:
    """Let each `Attention` take the past and give the present, and return for how many it could be done.

    Args:
        model: an `onnx_ir.Model`; it is changed.
    """
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    nodes = [node for node in model.graph if node.op_type == "Attention" and not node.domain]
    count = sum(_grown(model.graph, node) for node in nodes)
    if count:
        RemoveUnusedNodesPass()(model)
    return count


def _grown(graph: Any, node: Any) -> bool:
    """Do it for one node, if its keys and its values are both a past and new ones that nothing else reads."""
    import onnx_ir as ir

    query, keys, values, *rest = node.inputs
    both = [parts for state in (keys, values) if (parts := _past_and_new(state)) is not None]
    if len(both) != 2 or len(rest) != 1 or len(node.outputs) != 1:
        return False
    (past_key, key), (past_value, value) = both
    if {size(key, 1)} != {size(item, 1) for item in (past_key, past_value, value)} or size(key, 1) is None:
        return False
    # An encoder's states have a past and nothing new in later calls, which the operator of ONNX Runtime does not take.
    if any(item.shape is None or str(item.shape[2]) != str(key.shape[2]) for item in (query, value)):
        return False
    # What is causal begins at the first token where a past is given, and at the last one where it is not.
    if "is_causal" in node.attributes and node.attributes["is_causal"].value:
        return False
    made = ir.node(
        "Attention", [query, key, value, *rest, past_key, past_value],
        attributes={name: item.value for name, item in node.attributes.items()}, num_outputs=3,
    )  # fmt: skip
    graph.insert_before(node, made)
    for old, new in zip((node.outputs[0], keys, values), made.outputs, strict=True):
        replace(old, new)
    return True


def _past_and_new(present: Any) -> tuple[Any, Any] | None:
    """Return past and new of what is an output of the graph, and read by an attention alone."""
    concat = producer(present, "Concat")
    if concat is None or len(concat.inputs) != 2 or concat.attributes["axis"].value not in (2, -2):
        return None
    past, new = concat.inputs
    is_cache = past.is_graph_input() and present.is_graph_output() and len(present.uses()) == 1
    return (past, new) if is_cache and new.shape is not None and len(new.shape) == 4 else None
