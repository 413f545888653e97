"""Tensors of a captured program that are changed in place, by the nodes from their first to their last change."""

from collections.abc import Iterator
from operator import getitem
from typing import Any

import torch

from ._node_trace import NotTracedError, is_mutable


def changing_spans(graph: Any) -> list[list[Any]]:
    """Return spans of nodes, in their order, each with all changes of the tensors that are made in it.

    Raises:
        NotTracedError: what is changed is an input.
    """
    nodes = list(graph.nodes)
    places = {node: at for at, node in enumerate(nodes)}
    spans: list[tuple[int, int]] = []
    for first, last in sorted((min(places[item] for item in _origins(node)), places[node]) for node in _changes(nodes)):
        if spans and first <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], last))
        else:
            spans.append((first, last))
    return [nodes[first : last + 1] for first, last in spans]


def _changes(nodes: list[Any]) -> Iterator[Any]:
    yield from (node for node in nodes if node.op == "call_function" and is_mutable(node))


def _origins(node: Any) -> Iterator[Any]:
    """Yield the nodes that made what a call changes."""
    for value in _aliased(node, is_write=True):
        made = value
        while before := list(_shared(made)):
            (made,) = before
        if made.op != "call_function":
            raise NotTracedError(f"{node.target} changes an input")
        yield made


def _shared(node: Any) -> Iterator[Any]:
    """Yield what a node's result shares its elements with."""
    if node.op != "call_function":
        return
    if node.target is getitem:
        yield node.args[0]
    elif isinstance(node.target, torch._ops.OpOverload):
        yield from _aliased(node, is_write=False)


def _aliased(node: Any, *, is_write: bool) -> Iterator[Any]:
    """Yield the arguments that a call changes, or those that its result may share elements with."""
    given = dict(zip((item.name for item in node.target._schema.arguments), node.args, strict=False)) | dict(
        node.kwargs
    )
    for item in node.target._schema.arguments:
        kind = item.alias_info
        if kind is None or (is_write and not kind.is_write):
            continue
        value = given.get(item.name)
        if is_write and isinstance(value, (list, tuple)):
            raise NotTracedError(f"{node.target} changes a list")
        if isinstance(value, torch.fx.Node):
            yield value
