"""One node of a captured program, taken apart by tracing it alone."""

from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from ._same_nodes import put_in_place


class NotTracedError(Exception):
    """A node cannot be taken apart by itself."""


def write_traced(graph: Any, node: Any, table: Any) -> list[Any]:
    """Put in the place of a node what tracing makes of it.

    Args:
        graph: its graph.
        node: a call of an operator.
        table: functions that take operators apart.

    Returns:
        The nodes that were added.

    Raises:
        NotTracedError: it has constants, or numbers among its results.
    """
    leaves, structure = pytree.tree_flatten((node.args, node.kwargs))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.fx.Node)]
    traced = _traced(node, leaves, structure, places, table).graph
    known = dict(zip(traced.find_nodes(op="placeholder"), (leaves[at] for at in places), strict=True))
    added = []
    with graph.inserting_before(node):
        for item in traced.nodes:
            if item.op == "call_function":
                known[item] = graph.node_copy(item, known.__getitem__)
                known[item].meta = {**node.meta, "val": item.meta["val"]}
                added.append(known[item])
            elif item.op not in ("placeholder", "output"):
                raise NotTracedError(f"{node.target} has a constant")
    _put_results(node, torch.fx.map_arg(traced.output_node().args[0], known.__getitem__))
    return added


def _traced(node: Any, leaves: list[Any], structure: Any, places: list[int], table: Any) -> Any:
    values = [leaves[at].meta["val"] for at in places]

    def call(*given: Any) -> Any:
        found = dict(zip(places, given, strict=True))
        args, kwargs = pytree.tree_unflatten([found.get(at, leaf) for at, leaf in enumerate(leaves)], structure)
        return node.target(*args, **kwargs)

    fake_mode = detect_fake_mode(values)
    if fake_mode is None:
        raise NotTracedError(f"{node.target} has no tensor")
    # What is decided about sizes meanwhile is said to be of the line that the node comes from.
    with fake_mode, traceback.preserve_node_meta(), traceback.set_current_meta(node):
        made = make_fx(call, decomposition_table=table)(*values)
    made.graph.eliminate_dead_code()
    return made


def _put_results(node: Any, found: Any) -> None:
    if isinstance(found, torch.fx.Node):
        put_in_place(node, found)
        return
    users = list(node.users)
    # The users of several results are those that pick one.
    if not isinstance(found, (list, tuple)) or any(
        user.op != "call_function" or user.args[0] is not node for user in users
    ):
        raise NotTracedError(f"{node.target} gives {found!r}")
    for user in users:
        result = found[user.args[1]]
        if not isinstance(result, torch.fx.Node):
            raise NotTracedError(f"{node.target} gives {result!r}")
        put_in_place(user, result)
