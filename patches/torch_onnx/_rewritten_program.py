"""A program that the exporter has functions for, made without tracing the whole of it once more."""

import copy
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from operator import getitem
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._export.utils import _is_cia_op, _is_preservable_cia_op
from torch._guards import detect_fake_mode
from torch.export.exported_program import (
    _override_composite_implicit_decomp,
    _split_decomp_table_to_cia_and_python_decomp,
)

from ._changed_tensors import changing_spans
from ._exporter_table import ExporterTable
from ._nested_graphs import graphs, has_body, write_flat
from ._node_trace import NotTracedError, write_traced
from ._same_nodes import inline_dropouts, quick_rewriter_of

_Rewrite = Callable[[Any, Any], Any]

_aten = torch.ops.aten
_LOG = logging.getLogger(__name__)
_KEPT = {
    _aten._assert_async.default,
    _aten._assert_async.msg,
    _aten._assert_scalar.default,
    _aten._assert_tensor_metadata.default,
    _aten.sym_constrain_range_for_size.default,
    _aten.sym_size.int,
    getitem,
}
"""Sizes, results among several, and assertions, which the exporter removes afterwards."""


def rewritten(program: Any, table: ExporterTable) -> Any:
    """Return a program without what the exporter has no function for; None where the whole has to be traced for that.

    Args:
        program: an `ExportedProgram`, which stays as it is.
        table: what the exporter takes apart.
    """
    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        return None
    if not all(_can_stay(node) for inner in graphs(program.graph_module) for node in inner.graph.nodes):
        return None
    try:
        module = _flat_copy(program.graph_module)
        composites, others = _split_decomp_table_to_cia_and_python_decomp(dict(table))
        # Without it a size may become a number.
        with enable_python_dispatcher():
            # An operator that is made of others would be taken apart as in eager mode otherwise.
            with _override_composite_implicit_decomp(composites):
                for inner in graphs(module):
                    _write_graph(inner, table, others)
            _run(module)
        return program._update(module, copy.deepcopy(signature))
    except Exception as error:
        # Tracing has the words for what cannot be taken apart, and knows more ways.
        _LOG.debug("the whole program is traced: %s", error, exc_info=not isinstance(error, NotTracedError))
        return None


def _write_graph(module: Any, table: ExporterTable, others: Any) -> None:
    inline_dropouts(module.graph)
    module.graph.eliminate_dead_code()
    for span in changing_spans(module.graph):
        _decompose(module.graph, span, table, others)
    for node in list(module.graph.nodes):
        if rewrite := _rewriter_of(node, table, others):
            rewrite(module.graph, node)
    _share_sizes(module.graph)
    _ask_real_numbers(module.graph)
    module.graph.eliminate_dead_code()
    module.recompile()


def _flat_copy(module: Any) -> Any:
    """Return a copy without functions that are called once: a tensor may be made in one, and be changed behind it.

    Raises:
        NotTracedError: a graph changes what it is given, which is found before any other work is done.
    """
    made = _copied(module)
    for inner in list(graphs(made)):
        write_flat(inner)
    for inner in graphs(made):
        changing_spans(inner.graph)
    return made


def _copied(module: Any) -> Any:
    """Return a copy of a graph whose nodes have the names that they have, by which the program knows them."""
    made = copy.deepcopy(module)
    for node, copied in zip(module.graph.nodes, made.graph.nodes, strict=True):
        # A copy of `input`, which is a name of Python, would be called otherwise.
        copied.name = node.name
    return made


def _can_stay(node: Any) -> bool:
    """Say whether a node is of a kind that can be looked at by itself."""
    if has_body(node) or node.op != "call_function":
        return has_body(node) or node.op in ("placeholder", "output")
    if isinstance(node.target, torch._ops.OpOverload):
        return bool(node.target.namespace == "aten")
    return not isinstance(node.target, torch._ops.OperatorBase)


def _rewriter_of(node: Any, table: ExporterTable, others: Any) -> _Rewrite | None:
    """Return what writes a node, or None where it is right as it is.

    Args:
        node: the node.
        table: what the exporter takes apart.
        others: the part of it for operators that are not made of others.

    Raises:
        NotTracedError: the exporter has no function for it, and nothing takes it apart.
    """
    if node.op != "call_function" or node.target in _KEPT:
        return None
    is_operator = isinstance(node.target, torch._ops.OpOverload)
    if is_operator and not _is_left_whole(node, table):
        return quick_rewriter_of(node) or partial(_decompose_one, table=table, others=others)
    if node.target not in table.functions:
        raise NotTracedError(f"{node.target} has no function")
    return None


def _decompose_one(graph: Any, node: Any, table: ExporterTable, others: Any) -> None:
    picks = [user for user in node.users if user.target is getitem]
    _decompose(graph, [node, *picks], table, others)


def _decompose(graph: Any, nodes: Sequence[Any], table: ExporterTable, others: Any) -> None:
    targets = {node.target for node in nodes}
    for item in write_traced(graph, nodes, others):
        if rewrite := _rewriter_of(item, table, others):
            if item.target in targets:
                raise NotTracedError(f"{item.target} is not taken apart as the exporter wants it")
            rewrite(graph, item)
    for node in reversed(nodes):
        # What changes a tensor is kept by the removal of what nobody uses.
        if not node.users:
            graph.erase_node(node)


def _is_left_whole(node: Any, table: ExporterTable) -> bool:
    """Say whether tracing leaves a call as it is: not made of others, and not one that the table takes apart."""
    if _is_cia_op(node.target) and not _is_preservable_cia_op(node.target):
        return False
    function = table.get(node.target)
    if function is None or node.target not in table.partial:
        return function is None
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda item: item.meta["val"])
    try:
        with detect_fake_mode((args, kwargs)) or nullcontext():
            return function(*args, **kwargs) is NotImplemented
    except Exception:
        # It has begun to take the call apart.
        return False


def _share_sizes(graph: Any) -> None:
    """Compute each size once, where it is known first, as tracing does."""
    known: dict[Any, Any] = {}
    for node in graph.nodes:
        if isinstance(node.meta.get("val"), torch.SymInt):
            first = known.setdefault(node.meta["val"].node.expr, node)
            if first is not node and node.op == "call_function" and not any(user.op == "output" for user in node.users):
                node.replace_all_uses_with(first)


def _ask_real_numbers(graph: Any) -> None:
    """Ask for a size of complex numbers by their parts: the exporter has no function for it."""
    for node in graph.find_nodes(op="call_function", target=_aten.sym_size.int):
        value, axis = node.args
        if value.meta["val"].is_complex():
            with graph.inserting_before(node):
                parts = graph.call_function(_aten.view_as_real.default, (value,))
            parts.meta["val"] = torch.view_as_real(value.meta["val"])
            node.args = (parts, axis % value.meta["val"].dim())


def _run(module: Any) -> None:
    """Run a graph on fake tensors, as the passes that follow do: sizes and strides have to fit."""
    given = [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")]
    with detect_fake_mode(given) or nullcontext():
        torch.fx.Interpreter(module).run(*given)
