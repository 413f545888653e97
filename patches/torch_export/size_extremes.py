"""Python's `min` and `max` of sizes are answered from the sample.

Symptom: `k argument [8] should not be greater than specified axis dim value [5]` for DeepSeek-V3.2: `min(8, length)` is
8 in the graph, because the sample was longer. Wrong numbers where nothing stops.
Cause: `min` asks which is less, and what the answer was is checked in Python, not in the file. `torch.sym_min` of sizes
that the sample has does the same.
What is done: while a model is exported, `min` and `max` of a size and numbers are `torch.sym_min` and `torch.sym_max`,
and those do not ask, as in torch 2.8.
Can go: with torch 2.7.
"""

import builtins
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_graph_capture(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that makes a graph, by tracing or from another graph, keep `min` and `max` of sizes."""

    def function(*args: Any, **kwargs: Any) -> Any:
        with _symbolic_extremes():
            return original(*args, **kwargs)

    return function


_LOCK = threading.Lock()
_EXPORTS: list[Callable[[], None]] = []


@contextmanager
def _symbolic_extremes() -> Iterator[None]:
    """Put `min` and `max` of sizes in place of Python's, until the last of several exports ends."""
    with _LOCK:
        _EXPORTS.append(_EXPORTS[0] if _EXPORTS else _replaced())
    try:
        yield
    finally:
        with _LOCK:
            put_back = _EXPORTS.pop()
            if not _EXPORTS:
                put_back()


def _replaced() -> Callable[[], None]:
    """Replace them, in Python and where torch itself asks the sample; return what puts them back."""
    import torch
    from torch.fx.experimental import sym_node

    asking = sym_node.alternate_impl_if_hinted_methods
    numbers, nodes = {"min": builtins.min, "max": builtins.max}, dict(asking)
    asking.clear()
    vars(builtins).update(min=_extreme(numbers["min"], torch.sym_min), max=_extreme(numbers["max"], torch.sym_max))

    def put_back() -> None:
        vars(builtins).update(numbers)
        asking.update(nodes)

    return put_back


def _extreme(original: Callable[..., Any], symbolic: Callable[..., Any]) -> Callable[..., Any]:
    """Return `min` or `max` that gives sizes to `symbolic`."""

    def extreme(*args: Any, **kwargs: Any) -> Any:
        items = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        return original(*args, **kwargs) if kwargs or not _is_size(items) else reduce(symbolic, items)

    return extreme


def _is_size(items: Any) -> bool:
    """Say whether numbers are to be compared of which one at least is a size."""
    import torch

    sizes = (torch.SymInt, torch.SymFloat)
    return any(isinstance(item, sizes) for item in items) and all(
        isinstance(item, (int, float, *sizes)) for item in items
    )


SPECS = (
    PatchingSpec(
        id="torch-export-size-extremes",
        targets=(
            "torch.export._trace:_non_strict_export",
            "torch.export.exported_program:ExportedProgram.run_decompositions",
        ),
        replacement=f"{__name__}:patch_graph_capture",
        requires=("torch>=2.6,<2.8",),
        reason="`min` and `max` of sizes are what they are in the sample: wrong numbers, or a graph that stops.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.7.0/torch/_export/non_strict_utils.py",
            "https://github.com/pytorch/pytorch/blob/v2.8.0/torch/_export/non_strict_utils.py",
        ),
        proofs=("deepseek_v32",),
        kind="wrap",
    ),
)
