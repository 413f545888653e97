"""The decoder of an encoder-decoder in two graphs: one for first calls, and one for what comes after them.

A later call of the one graph copies the keys and values of the encoder, since it returns what it was given. The graph
for later calls takes them alone: it has no states of an encoder, and returns the keys and values of the text.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat._verification import FIRST, LATER, PAST_ARGUMENT, PREFIX

from ._graph import Writer, producer, redirect
from ._tidy import tidy

STATES = "encoder_hidden_states"
"""The input of a decoder that comes from an encoder."""

_TOKENS = "input_ids"
OF_STATES = ".encoder."
"""In the names of keys and values that are made of the states."""

NAME = "later-calls"
"""What reports call it."""


def split(path: Path, folder: Path, facts: Mapping[str, str]) -> bool:
    """Write both graphs into a folder, and say whether there is a place for that.

    Args:
        path: the file that does both, as `export` writes it; its weights may lie beside it, and stay there.
        folder: where they go, by the names that optimum has for such files; on the same disk.
        facts: what both say of themselves in `metadata_props`.
    """
    ir = require("onnx_ir", "onnx")
    changes: Mapping[str, Callable[[Any], bool]] = {FIRST: _without_past, LATER: _without_states}
    beside: set[str] = set()
    for name, change in changes.items():
        # Weights beside the file are not read: the new graphs share them.
        model = ir.load(path)
        if not change(model):
            return False
        tidy(model)
        model.metadata_props.update(facts)
        weights = [value.const_value for value in model.graph.initializers.values()]
        beside |= {str(item.location) for item in weights if isinstance(item, ir.ExternalTensor)}
        ir.save(model, folder / name)
    for place in sorted(beside):
        _share(path.with_name(place), folder / place)
    return True


def drop_parts(folder: Path) -> None:
    """Remove such graphs of an earlier export from a folder: the weights that they share are written anew."""
    for path in filter(Path.is_file, (folder / FIRST, folder / LATER)):
        facts: Mapping[str, str] = {}
        # A file that is no model is none of ours, and there is none of ours where onnx-ir is not.
        with suppress(Exception):
            facts = require("onnx_ir", "onnx").load(path).metadata_props
        if facts.get(f"{PREFIX}derivations") == NAME:
            path.unlink()


def _without_past(model: Any) -> bool:
    """Let a graph begin with an empty cache."""
    graph = model.graph
    past = [value for value in graph.inputs if value.name.startswith(PAST_ARGUMENT)]
    for value in past:
        _empty(graph, value)
    return bool(past)


def _without_states(model: Any) -> bool:
    """Let a graph take the keys and values of an encoder as they are, and not return them."""
    graph, states = model.graph, _named(model.graph.inputs, STATES)
    known = {id(value) for value in graph.inputs if OF_STATES in value.name}
    found = {value: _kept(value, known) for value in graph.outputs if OF_STATES in value.name}
    if states is None or not found or None in found.values():
        return False
    for present, past in found.items():
        graph.outputs.remove(present)
        redirect(present, past)
    _empty(graph, states)
    return True


def _kept(present: Any, known: set[int]) -> Any:
    """Return the input that an output is once the states are none; None if it is another thing."""
    node = producer(present, "Concat")
    past = [value for value in node.inputs if id(value) in known] if node is not None else []
    return past[0] if len(past) == 1 else None


def _empty(graph: Any, value: Any) -> None:
    """Put a tensor of length 0 in the place of an input `(batch, ...)`, whose axes with other names have length 0."""
    import numpy as np

    tokens, writer = _named(graph.inputs, _TOKENS), Writer(graph, graph[0])
    sizes = [size if isinstance(size, int) else 0 for size in value.shape[1:]]
    batch = writer.node("Shape", [tokens], attributes={"start": 0, "end": 1})
    shape = writer.node("Concat", [batch, writer.constant(np.array(sizes, np.int64))], attributes={"axis": 0})
    nothing = writer.constant(np.zeros([1, *sizes], value.dtype.numpy()))
    redirect(value, writer.node("Expand", [nothing, shape], value))
    graph.inputs.remove(value)


def _named(values: Any, name: str) -> Any:
    return next((value for value in values if value.name == name), None)


def _share(weights: Path, place: Path) -> None:
    """Put a file of weights where the new graphs look for it."""
    try:
        os.link(weights, place)
    except OSError:
        # Not every file system has a second name for a file.
        shutil.copyfile(weights, place)
