"""A constant that the optimizer makes takes the name, and so the place, of one that it has made before.

Symptom: `Node input 'mul_341_min_1' is not a graph input, initializer, or output of a previous node`, or other numbers
without any error: Gemma 4's encoder of sounds, and other models that clamp a value by tensors in several ways.
Cause: a maximum and a minimum in a row become one clip, whose bounds are named after what is clipped. Where a value is
clipped twice, both pairs have the same names, and in the graph the later constant replaces the first.
What is done: a new constant whose name is taken gets one that is not.
Can go: when onnxscript does so itself.
"""

import functools
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_try_rewrite(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a rule of the optimizer give its new constants names that the graph does not have."""

    @functools.wraps(original)
    def try_rewrite(self: Any, model: Any, graph_or_function: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, model, graph_or_function, *args, **kwargs)
        known = getattr(graph_or_function, "initializers", None)
        for value in getattr(found, "new_initializers", None) or () if known is not None else ():
            value.name = _free(value.name, known)
        return found

    return try_rewrite


def _free(name: str, known: Any) -> str:
    """Return a name that is not among those known: the given one, or one with a number behind it."""
    count, found = 1, name
    while found in known:
        count, found = count + 1, f"{name}_{count}"
    return found


SPECS = (
    PatchingSpec(
        id="torch-onnx-new-constants",
        targets=("onnxscript.rewriter._rewrite_rule:RewriteRule.try_rewrite",),
        replacement=f"{__name__}:patch_try_rewrite",
        requires=("torch>=2.9", "onnxscript>=0.5.3"),
        reason="Constants of two rewritten nodes have one name, and one of them is lost: no file, or other numbers.",
        upstream=("https://github.com/microsoft/onnxscript/blob/main/onnxscript/rewriter/_rewrite_rule.py",),
        proofs=("clamping_encoder",),
        kind="wrap",
    ),
)
