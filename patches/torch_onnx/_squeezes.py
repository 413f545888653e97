"""A `squeeze` in a captured program, made one of the axes that are 1 in every call."""

import operator
import re
from collections.abc import Iterator
from typing import Any

import sympy
import torch

from exportcompat.patches.toolkit.decisions import Decision, current, is_one_in_sample

_aten = torch.ops.aten
_PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n\s*(?P<source>[^\n]*)')
_COPIES = (_aten.clone.default, _aten._to_copy.default, _aten.copy.default, _aten.expand.default)
_BY_AXES = (
    *(_aten.softmax.int, _aten.log_softmax.int, _aten._softmax.default, _aten._log_softmax.default),
    *(_aten.argmax.default, _aten.argmin.default, _aten.amax.default, _aten.amin.default),
    *(_aten.sum.dim_IntList, _aten.mean.dim),
)
"""Those that go along axes, which may be counted from the last one."""


def correct_squeeze(node: Any) -> None:
    """Make a `squeeze` some of the axes that are 1; a copy if there is none."""
    if node.target not in (_aten.squeeze.default, _aten.squeeze.dim, _aten.squeeze.dims):
        return
    value = node.args[0]
    if _has_false_axes(value):
        return
    sizes, axes = value.meta["val"].shape, _axes(node)
    # A number has no axes, and torch squeezes its axis 0 all the same. No size that is symbolic is known to be 1.
    ones = [axis for axis in axes if sizes and isinstance(sizes[axis], int) and sizes[axis] == 1]
    if not sizes or len(ones) == len(axes) or _is_squeezed_in_a_call(node):
        return
    dynamic = [axis % len(sizes) for axis in axes if not isinstance(sizes[axis], int)]
    fixed = {axis % len(sizes) for axis in ones}
    # Of some axes torch has found that they are 1, and has taken them away.
    has_less = node.meta["val"].dim() < len(sizes) - len(ones)
    if has_less or not _is_broadcast(node, dynamic, fixed):
        gone = [axis for axis in dynamic if is_one_in_sample(sizes[axis])]
        if gone and node.target is _aten.squeeze.default:
            # Which axes are 1 decides in a call, as without patches: the sample itself has none of these.
            return
        _tell([sympy.Eq(sizes[axis].node.expr, 1) for axis in gone], node)
        _tell([sympy.Ne(sizes[axis].node.expr, 1) for axis in dynamic if axis not in gone], node)
        fixed.update(gone)
    _write(node, sorted(fixed))


def _has_false_axes(value: Any) -> bool:
    """Say whether torch has found a wrong shape: what `unbind` makes of a dynamic axis keeps it there."""
    parts = value.args[0] if value.target is operator.getitem else None
    if not isinstance(parts, torch.fx.Node) or parts.target is not _aten.unbind.int:
        return False
    return bool(value.meta["val"].dim() == parts.args[0].meta["val"].dim())


def _write(node: Any, axes: list[int]) -> None:
    """Squeeze axes one by one, from the last on; the exporter has no function for several."""
    value = node.args[0]
    for axis in axes[:0:-1]:
        with node.graph.inserting_before(node):
            found = node.graph.call_function(_aten.squeeze.dim, (value, axis))
        found.meta = {**node.meta, "val": value.meta["val"].squeeze(axis)}
        value = found
    node.target = _aten.squeeze.dim if axes else _aten.clone.default
    node.args = (value, axes[0]) if axes else (value,)


def _axes(node: Any) -> list[int]:
    """Return the axes that a `squeeze` names; all that may be 1, if it names none."""
    if node.target is _aten.squeeze.default:
        sizes = node.args[0].meta["val"].shape
        return [axis for axis, size in enumerate(sizes) if not isinstance(size, int) or size == 1]
    axes = node.args[1]
    return [axes] if isinstance(axes, int) else list(axes)


def _is_squeezed_in_a_call(node: Any) -> bool:
    """Say whether the axes of a call may decide: nothing on the way out of the graph goes by their number."""
    return node.target is _aten.squeeze.default and _leaves(node)


def _leaves(node: Any) -> bool:
    return all(user.op == "output" or (_is_of_any_rank(user, node) and _leaves(user)) for user in node.users)


def _is_of_any_rank(user: Any, node: Any) -> bool:
    """Say whether an operator does not ask how many axes there are: those of elements, and of the last axes."""
    if _is_by_element(user) or (user.target is _aten.embedding.default and user.args[1] is node):
        return True
    # An axis before all others, or behind them.
    if user.target is _aten.unsqueeze.default:
        return user.args[1] in (0, -1)
    if user.target not in _BY_AXES or len(user.args) < 2:
        return False
    axes = user.args[1] if isinstance(user.args[1], (list, tuple)) else [user.args[1]]
    return bool(axes) and all(isinstance(axis, int) and axis < 0 for axis in axes)


def _is_by_element(node: Any) -> bool:
    is_operator = isinstance(node.target, torch._ops.OpOverload)
    return is_operator and (torch.Tag.pointwise in node.target.tags or node.target in _COPIES[:2])


def _is_broadcast(node: Any, kept: list[int], ones: set[int]) -> bool:
    """Say whether all that is made of a result is the same without its first axes, of size 1: they are broadcast."""
    first = [axis for axis in range(node.args[0].meta["val"].dim()) if axis not in ones][: len(kept)]
    return kept == first and all(_is_as_large(user, node) for user in node.users)


def _is_as_large(user: Any, node: Any) -> bool:
    is_broadcast = user.target in _COPIES[2:] or _is_by_element(user)
    rank = node.meta["val"].dim()
    others = [item.meta.get("val") for item in user.all_input_nodes if item is not node]
    tensors = [item for item in others if isinstance(item, torch.Tensor)]
    return is_broadcast and (user.target is _COPIES[3] or any(item.dim() >= rank for item in tensors))


def _tell(taken: list[Any], node: Any) -> None:
    """Note what is taken to be true of dynamic sizes."""
    capture = current()
    if capture is None:
        return
    place = next(_places(node), ("", 0, "", ""))
    for relation in taken:
        capture.decisions.setdefault(Decision(relation, "branch", *place))


def _places(node: Any) -> Iterator[tuple[str, int, str, str]]:
    """Yield where a node was made: file, line, function and source, from the innermost on."""
    for found in reversed(list(_PLACE.finditer(node.meta.get("stack_trace") or ""))):
        yield found["file"], int(found["line"]), found["function"], found["source"]
