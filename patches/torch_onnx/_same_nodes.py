"""Nodes of a captured program that tracing takes apart, written as it would write them."""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

_aten = torch.ops.aten


def quick_rewriter_of(node: Any) -> Callable[[Any, Any], None] | None:
    """Return what writes a node, given the graph and the node; None for those that have to be traced."""
    found = _WRITES.get(node.target)
    return found if found is None or _is_on_one_device(node) else None


def inline_dropouts(graph: Any) -> None:
    """Put what a dropout is given in its place: it is the same tensor, and a change of one is a change of both."""
    for node in graph.find_nodes(op="call_function", target=_aten.dropout.default):
        if node.args[2] is False:
            substitute(node, node.args[0])


def substitute(node: Any, value: Any) -> None:
    """Put another node in the place of one; what a program returns keeps its name, and has all changes of the other."""
    node.replace_all_uses_with(value, delete_user_cb=lambda user: user.op != "output")
    if node.users:
        node.graph.output_node().prepend(node)
        node.target, node.args, node.kwargs = _aten.clone.default, (value,), {}


def _is_on_one_device(node: Any) -> bool:
    value = node.args[0].meta.get("val") if isinstance(node.args[0], torch.fx.Node) else None
    return isinstance(value, torch.Tensor) and value.device == node.meta["val"].device


def _write_cast(_: Any, node: Any) -> None:
    value, dtype = node.args[0], node.meta["val"].dtype
    if value.meta["val"].dtype == dtype:
        substitute(node, value)
    else:
        node.target, node.args, node.kwargs = _aten._to_copy.default, (value,), {"dtype": dtype}


def _write_contiguous(_: Any, node: Any) -> None:
    form = node.args[1] if len(node.args) > 1 else node.kwargs.get("memory_format", torch.contiguous_format)
    node.target, node.args, node.kwargs = _aten.clone.default, (node.args[0],), {"memory_format": form}


def _write_view(graph: Any, node: Any) -> None:
    """Make a `reshape` a view of a copy: a size of 0 is one then, and not that of the tensor before.

    Of what eager need not copy, the passes that follow may compute other strides.
    """
    value, form = node.args[0], {"memory_format": torch.contiguous_format}
    before, after = value.meta["val"], node.meta["val"]
    if before.dim() == after.dim() and all(map(statically_known_true, map(operator.eq, before.shape, after.shape))):
        substitute(node, value)
        return
    with graph.inserting_before(node):
        copied = graph.call_function(_aten.clone.default, (value,), form)
    copied.meta = {**node.meta, "val": before.clone(**form)}
    node.target, node.args = _aten.view.default, (copied, node.args[1])


_WRITES: dict[Any, Callable[[Any, Any], None]] = {
    **dict.fromkeys((_aten.to.dtype, _aten.to.device, _aten.to.dtype_layout, _aten.to.other), _write_cast),
    _aten.reshape.default: _write_view,
    _aten.contiguous.default: _write_contiguous,
}
"""What a program is full of; the rest can be traced node by node."""
