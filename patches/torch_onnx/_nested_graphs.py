"""The bodies of branches and loops of a captured program, and functions that it calls once."""

from collections.abc import Iterator
from typing import Any

import torch

from ._same_nodes import substitute

_ops = torch.ops.higher_order
_BODIES = frozenset({_ops.cond, _ops.scan})


def graphs(module: Any) -> Iterator[Any]:
    """Yield the graph modules of a program, each once, inner ones first."""
    for child in dict.fromkeys(_inner(module)):
        yield from graphs(child)
    yield module


def has_body(node: Any) -> bool:
    """Say whether a node is a branch or a loop, a function that is called once, or what one of them calls."""
    if node.op == "get_attr":
        return isinstance(_module(node), torch.fx.GraphModule)
    return node.target in _BODIES or _is_called_once(node)


def write_flat(module: Any) -> None:
    """Put the nodes of functions that are called once in the place of the calls."""
    for node in module.graph.find_nodes(op="call_function", target=_ops.wrap_with_set_grad_enabled):
        _, body, *given = node.args
        inner = _module(body).graph
        known = dict(zip(inner.find_nodes(op="placeholder"), given, strict=True))
        with module.graph.inserting_before(node):
            results = module.graph.graph_copy(inner, known)
        for user in list(node.users):
            # The users of a function's results pick one each.
            substitute(user, results[user.args[1]])
            if not user.users:
                module.graph.erase_node(user)
        module.graph.erase_node(node)
        module.graph.erase_node(body)


def _is_called_once(node: Any) -> bool:
    return node.target is _ops.wrap_with_set_grad_enabled and all(user.op == "call_function" for user in node.users)


def _inner(module: Any) -> Iterator[Any]:
    yield from (_module(node) for node in module.graph.find_nodes(op="get_attr") if has_body(node))


def _module(node: Any) -> Any:
    return getattr(node.graph.owning_module, node.target)
