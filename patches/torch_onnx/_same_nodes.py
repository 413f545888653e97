"""Write what tracing a program once more would write, where that is only other names for a few nodes."""

import copy
import operator
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial, reduce
from typing import Any

import torch
from torch._export.utils import _is_cia_op, _is_preservable_cia_op
from torch._guards import detect_fake_mode
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ._exporter_table import ExporterTable

_aten = torch.ops.aten
_ASSERTIONS = {
    _aten._assert_scalar.default,
    _aten._assert_tensor_metadata.default,
    _aten.sym_constrain_range_for_size.default,
}
"""What the exporter removes afterwards."""
_SIZES = {_aten.sym_size.int, operator.getitem}
_SAME = {
    _aten.__and__.Tensor: _aten.bitwise_and.Tensor,
    _aten.__or__.Tensor: _aten.bitwise_or.Tensor,
    _aten.__xor__.Tensor: _aten.bitwise_xor.Tensor,
    _aten.min.other: _aten.minimum.default,
    _aten.max.other: _aten.maximum.default,
}
"""Operators by their other names."""


def rewritten(program: Any, table: ExporterTable) -> Any:
    """Return a program whose nodes the exporter knows; None where it takes more than other names.

    Args:
        program: an `ExportedProgram`, which stays as it is.
        table: what the exporter takes apart.
    """
    signature = program.graph_signature
    is_changed = signature.buffers_to_mutate or signature.user_inputs_to_mutate
    if is_changed or not all(_is_known(node, table) for node in program.graph.nodes):
        return None
    module = copy.deepcopy(program.graph_module)
    for node in list(module.graph.nodes):
        if write := _WRITES.get(node.target):
            write(module.graph, node)
        elif node.target in _SAME:
            node.target = _SAME[node.target]
    module.graph.eliminate_dead_code()
    module.recompile()
    return program._update(module, copy.deepcopy(signature))


def _is_known(node: Any, table: ExporterTable) -> bool:
    if node.op != "call_function":
        # The body of a loop or a branch is a module of its own.
        return node.op in ("placeholder", "output")
    if node.target in _ASSERTIONS or node.target in _SIZES:
        return True
    if node.target in _WRITES:
        return _can_be_written(node)
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.target in table.functions
    target = _SAME.get(node.target, node.target)
    is_function = target in table.functions and _is_left(target)
    return is_function and (target not in table or _is_left_whole(node, table[target]))


def _is_left_whole(node: Any, function: Callable[..., Any]) -> bool:
    """Say whether what takes an operator apart leaves this call of it to the exporter."""
    values = torch.fx.map_arg((node.args, node.kwargs), lambda item: item.meta["val"])
    fake_mode = detect_fake_mode(values)
    try:
        with fake_mode or nullcontext():
            return function(*values[0], **values[1]) is NotImplemented
    except Exception:
        # Tracing has the words for what cannot be taken apart.
        return False


def _is_left(target: Any) -> bool:
    """Say whether tracing leaves an operator as it is: it changes no tensor, and is not made of others."""
    return not target._schema.is_mutable and (not _is_cia_op(target) or _is_preservable_cia_op(target))


def _can_be_written(node: Any) -> bool:
    """Say whether a node is a cast on one device, a view, a copy, or a dropout that drops nothing."""
    if node.target is _aten.dropout.default:
        return node.args[2] is False
    value = node.args[0].meta.get("val") if isinstance(node.args[0], torch.fx.Node) else None
    return isinstance(value, torch.Tensor) and value.device == node.meta["val"].device


def _write_cast(graph: Any, node: Any) -> None:
    """Make a cast to another type the operator that the exporter knows."""
    value, dtype = node.args[0], node.meta["val"].dtype
    if value.meta["val"].dtype == dtype:
        _write_nothing(graph, node)
    else:
        node.target, node.args, node.kwargs = _aten._to_copy.default, (value,), {"dtype": dtype}


def _write_nothing(graph: Any, node: Any) -> None:
    """Put what a node is given in its place."""
    if any(user.op == "output" for user in node.users):
        # The program names its outputs.
        _write_copy(graph, node)
    else:
        node.replace_all_uses_with(node.args[0])


def _write_copy(_: Any, node: Any) -> None:
    node.target, node.args, node.kwargs = _aten.clone.default, (node.args[0],), {}


def _write_contiguous(_: Any, node: Any) -> None:
    form = node.args[1] if len(node.args) > 1 else node.kwargs.get("memory_format", torch.contiguous_format)
    node.target, node.args, node.kwargs = _aten.clone.default, (node.args[0],), {"memory_format": form}


def _write_view(graph: Any, node: Any) -> None:
    """Make a `reshape` a view: a size of 0 is one then, and not that of the tensor before."""
    if _has_shape_of(node.args[0], node):
        _write_nothing(graph, node)
    else:
        _view(graph, node, node.args[1])


def _write_flat(graph: Any, node: Any) -> None:
    """Make a `flatten` a view of sizes and their product."""
    value, *axes = node.args
    if _has_shape_of(value, node):
        _write_nothing(graph, node)
        return
    rank = value.meta["val"].dim()
    first, last = ((axes + [0, -1][len(axes) :])[at] % rank for at in (0, 1))
    with graph.inserting_before(node):
        sizes = [_size(graph, node, axis) for axis in range(rank)]
        merged = reduce(partial(_product, graph, node), sizes[first : last + 1])
    _view(graph, node, [*sizes[:first], merged, *sizes[last + 1 :]])


def _has_shape_of(value: Any, node: Any) -> bool:
    """Say whether a node has the shape of a tensor, for all sizes."""
    before, after = value.meta["val"].shape, node.meta["val"].shape
    return len(before) == len(after) and all(map(statically_known_true, map(operator.eq, before, after)))


def _size(graph: Any, node: Any, axis: int) -> Any:
    """Return a size of what a node is given: a number, or a node."""
    value, size = node.args[0], node.args[0].meta["val"].shape[axis]
    return size if isinstance(size, int) else _call(graph, node, size, _aten.sym_size.int, value, axis)


def _product(graph: Any, node: Any, left: Any, right: Any) -> Any:
    known = [item.meta["val"] if isinstance(item, torch.fx.Node) else item for item in (left, right)]
    found = operator.mul(*known)
    return found if isinstance(found, int) else _call(graph, node, found, operator.mul, left, right)


def _call(graph: Any, node: Any, answer: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    """Add a call that comes from the same place of the model as a node, and has this answer."""
    made = graph.call_function(target, args, kwargs)
    made.meta = {**node.meta, "val": answer}
    return made


def _view(graph: Any, node: Any, shape: Any) -> None:
    """Make a node a view of a copy: of what eager need not copy, the passes that follow may compute other strides."""
    value, form = node.args[0], {"memory_format": torch.contiguous_format}
    with graph.inserting_before(node):
        copied = _call(graph, node, value.meta["val"].clone(**form), _aten.clone.default, value, **form)
    node.target, node.args = _aten.view.default, (copied, shape)


_WRITES: dict[Any, Callable[[Any, Any], None]] = {
    **dict.fromkeys((_aten.to.dtype, _aten.to.device, _aten.to.dtype_layout, _aten.to.other), _write_cast),
    _aten.reshape.default: _write_view,
    _aten.flatten.using_ints: _write_flat,
    _aten.contiguous.default: _write_contiguous,
    _aten.dropout.default: _write_copy,
}
"""How nodes are written that tracing would take apart."""
