"""Axes cannot be given by their names.

Symptom: `Unexpected dimension mapped to index 0 in input tensor shape {0: 'batch', 1: 'sequence'}`, or a file without
dynamic axes, which torch makes in its second attempt, by another tracer.
Cause: `dynamic_shapes` of `torch.onnx.export` takes names (`{0: "batch"}`) from torch 2.7 on. In 2.6 it takes `Dim`
only, wants two axes to be equal by the same `Dim`, and calls every axis `s0`, `s1`, ... in the file.
What is done: a name becomes `Dim.DYNAMIC`, and the axes of the file are given the names.
Can go: with torch 2.6 (run on 2.6.0 and 2.7.1).
"""

import re
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_NAME = re.compile(r"[A-Za-z_]\w*")


def with_names(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the exporter's `export` made to take names of axes."""
    from torch.export import Dim
    from torch.utils._pytree import tree_map_only

    def export(
        model: Any, args: Any = (), kwargs: Any = None, *rest: Any, dynamic_shapes: Any = None, **others: Any
    ) -> Any:
        shapes = tree_map_only(str, lambda _: Dim.DYNAMIC, dynamic_shapes)
        program = original(model, args, kwargs, *rest, dynamic_shapes=shapes, **others)
        inputs, axes = program.model.graph.inputs, _axes(dynamic_shapes, kwargs or {})
        # A place without axes may stand for several inputs; torch 2.7 gives no names then either.
        if len(axes) == len(inputs):
            _rename(program.model, _names(inputs, axes))
        return program

    return export


def _axes(shapes: Any, kwargs: Any) -> list[Any]:
    """Return the axes of each input, in the order of the arguments, which is that of the inputs of the graph."""
    from torch.utils._pytree import tree_leaves

    if isinstance(shapes, dict):
        named: dict[str, Any] = {}
        for name, item in shapes.items():
            # Shapes of what is behind `**` are together under the name of that.
            is_behind = name not in kwargs and isinstance(item, dict) and item and item.keys() <= kwargs.keys()
            named |= item if is_behind else {name: item}
        given = [name for name in kwargs if name in named]
        shapes = {name: named[name] for name in (*(name for name in named if name not in given), *given)}
    found = tree_leaves(shapes, is_leaf=_is_axes)
    return [dict(enumerate(axes)) if isinstance(axes, (list, tuple)) else axes or {} for axes in found]


def _is_axes(item: Any) -> bool:
    """Say whether `item` is about the axes of one tensor."""
    if isinstance(item, dict):
        return all(isinstance(axis, int) for axis in item)
    return isinstance(item, (list, tuple)) and not any(isinstance(part, (dict, list, tuple)) for part in item)


def _names(inputs: Any, axes: list[Any]) -> dict[str, str]:
    """Return the name of each symbol; the first one is kept where two axes are the same."""
    names: dict[str, str] = {}
    for value, wanted in zip(inputs, axes, strict=True):
        for axis, name in wanted.items():
            symbol = getattr(value.shape[axis], "value", None)
            if isinstance(name, str) and isinstance(symbol, str):
                names.setdefault(symbol, name)
    return names


def _rename(model: Any, names: dict[str, str]) -> None:
    """Write the names in place of the symbols, in the shape of every value, those of inner graphs included."""
    # Of a function's nodes, this is what every onnxscript beside torch 2.6 can list: to 0.2.7 it has no `graph`.
    from onnxscript import ir

    for graph in (model.graph, *model.functions.values()):
        nodes = ir.traversal.RecursiveGraphIterator(graph)
        values = [*graph.inputs, *(value for node in nodes for value in node.outputs)]
        for value in values:
            if value.shape is not None:
                value.shape = type(value.shape)([_renamed(size, names) for size in value.shape])


def _renamed(size: Any, names: dict[str, str]) -> Any:
    """Return a size in which each symbol has its name; sums of symbols are sizes too."""
    text = getattr(size, "value", size)
    return _NAME.sub(lambda found: names.get(found[0], found[0]), text) if isinstance(text, str) else text


SPECS = (
    PatchingSpec(
        id="torch-onnx-axis-names",
        targets=("torch.onnx._internal.exporter._core:export",),
        replacement=f"{__name__}:with_names",
        requires=("torch>=2.6,<2.7", "onnxscript>=0.1"),
        reason="dynamic_shapes takes no names of axes, and the file has none: no graph, or one without dynamic axes.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.7.1/torch/onnx/_internal/exporter/_dynamic_shapes.py",),
        proofs=("tiny_gpt",),
        kind="wrap",
    ),
)
