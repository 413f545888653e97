"""Nodes of a captured program, taken apart by tracing them alone."""

from collections.abc import Sequence
from typing import Any

import torch
from torch._functorch._aot_autograd.functional_utils import has_data_mutation
from torch._guards import detect_fake_mode
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from ._same_nodes import substitute


class NotTracedError(Exception):
    """Nodes cannot be taken apart by themselves."""


def write_traced(graph: Any, nodes: Sequence[Any], table: Any) -> list[Any]:
    """Put in the place of nodes what tracing makes of them: nothing is changed, what the table has is taken apart.

    Args:
        graph: their graph.
        nodes: calls of operators, in their order. They need nothing that comes after the first of them.
        table: functions that take operators apart.

    Returns:
        The nodes that were added.

    Raises:
        NotTracedError: they have constants, numbers among what is used elsewhere, or change what was there before.
    """
    given, results = _given(nodes), _results(nodes)
    traced = _traced(nodes, given, results, table).graph
    traced.eliminate_dead_code()
    known = dict(zip(traced.find_nodes(op="placeholder"), given, strict=True))
    added = []
    with graph.inserting_before(nodes[0]):
        for item in traced.nodes:
            if item.op == "call_function":
                known[item] = graph.node_copy(item, known.__getitem__)
                known[item].meta = {**nodes[0].meta, **item.meta}
                added.append(known[item])
            elif item.op not in ("placeholder", "output"):
                raise NotTracedError(f"{nodes[0].target} has a constant")
    for node, value in zip(results, traced.output_node().args[0], strict=True):
        if not isinstance(value, torch.fx.Node):
            raise NotTracedError(f"{node.target} gives {value!r}")
        substitute(node, known[value])
    return added


def _given(nodes: Sequence[Any]) -> list[Any]:
    inside = set(nodes)
    return list(dict.fromkeys(item for node in nodes for item in node.all_input_nodes if item not in inside))


def _results(nodes: Sequence[Any]) -> list[Any]:
    inside = set(nodes)
    return [node for node in nodes if any(user not in inside for user in node.users)]


def _traced(nodes: Sequence[Any], given: Sequence[Any], results: Sequence[Any], table: Any) -> Any:
    values = [node.meta["val"] for node in given]
    fake_mode = detect_fake_mode([*values, *(node.meta["val"] for node in results)])
    if fake_mode is None:
        raise NotTracedError(f"{nodes[0].target} has no tensor")

    def call(*items: Any) -> list[Any]:
        known = dict(zip(given, items, strict=True))
        for node in nodes:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), known.__getitem__)
            # What is decided about sizes meanwhile is said to be of the line that the node comes from.
            with traceback.set_current_meta(node):
                known[node] = node.target(*args, **kwargs)
        return [known[node] for node in results]

    with fake_mode, traceback.preserve_node_meta():
        if any(map(is_mutable, nodes)):
            return make_fx(_functional(call), decomposition_table=table)(*values)
        made = make_fx(call, decomposition_table=table)(*values)
        # Pooling is made of others that change what they make.
        is_changed = any(map(is_mutable, made.graph.nodes))
        return make_fx(_functional(call), decomposition_table=table)(*values) if is_changed else made


def is_mutable(node: Any) -> bool:
    """Say whether a call changes a tensor."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _functional(function: Any) -> Any:
    """Return a function of the same values that changes no tensor.

    Raises:
        NotTracedError: it would change what it is given.
    """

    def call(*items: Any) -> Any:
        shut = torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize))
        with shut, FunctionalTensorMode(export=True):
            wrapped = pytree.tree_map_only(torch.Tensor, FunctionalTensor.to_functional, items)
            found = pytree.tree_map_only(FunctionalTensor, _plain, function(*wrapped))
            if any(isinstance(item, torch.Tensor) and has_data_mutation(item) for item in wrapped):
                raise NotTracedError("what was there before is changed")
            return found

    return call


def _plain(value: Any) -> Any:
    torch._sync(value)
    return torch._from_functional_tensor(value.elem)
