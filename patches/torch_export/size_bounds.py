"""An exported program refuses short inputs that it would compute right, because torch adds up its own lower bounds.

Symptom: a decoder that is exported with a cache cannot be called with a prompt of fewer than 4 tokens:
`Guard failed: attention_mask.size()[1] >= 4`.
Cause: every dynamic size counts as at least 2 while torch traces. That is not checked when the program is called: torch
leaves a lower bound of 2 out. But a relation between sizes, such as past + new = total, narrows the range of the total
to 4, and that is checked.
What is done: a lower bound that no question about that size alone has made is 2 again. The relation that it came from
is a check of its own. Where a user has bounded an axis, by `Dim("name", min=...)`, everything is left as it is.
Can go: when torch tells bounds that follow from its own from those that a program needs.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from exportcompat.registry import PatchingSpec

_LEAST = 2
"""What torch takes for the smallest size of a dynamic axis, and does not check."""


def patch_make_constraints(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `make_constraints` return lower bounds that somebody has asked for."""

    def make_constraints(
        fake_mode: Any, gm: Any, combined_args: Any, dynamic_shapes: Any, *args: Any, **kwargs: Any
    ) -> Any:
        found = original(fake_mode, gm, combined_args, dynamic_shapes, *args, **kwargs)
        if any(_is_bounded(axis) for axis in _axes(dynamic_shapes)):
            return found
        return _widened(found, fake_mode.shape_env)

    return make_constraints


def _axes(shapes: Any) -> Iterator[Any]:
    """Yield what is said of each axis, wherever it is in a structure of dynamic shapes."""
    from torch.utils._pytree import tree_leaves

    yield from tree_leaves(shapes)


def _is_bounded(axis: Any) -> bool:
    """Say whether a user has given an axis a lower bound of its own."""
    least = getattr(axis, "min", None)
    return isinstance(least, int) and least > _LEAST


def _widened(ranges: Mapping[Any, Any], shape_env: Any) -> dict[Any, Any]:
    """Return ranges by size, without the lower bounds that follow from relations of several sizes."""
    from torch.utils._sympy.value_ranges import ValueRanges

    asked = {symbol for guard in shape_env.guards for symbol in _alone(guard.expr)}
    return {
        size: ValueRanges(_LEAST, held.upper) if held.lower > _LEAST and _is_free(size, asked) else held
        for size, held in ranges.items()
    }


def _is_free(size: Any, asked: set[Any]) -> bool:
    """Say whether a size, or a sum of several, is made of dynamic axes that nobody has asked for by themselves."""
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    symbols = size.free_symbols
    is_relation = size.is_Symbol or len(symbols) > 1
    return is_relation and not symbols & asked and all(symbol_is_type(symbol, SymT.SIZE) for symbol in symbols)


def _alone(expression: Any) -> set[Any]:
    """Return the symbol of a question about one size; none for a relation of several."""
    symbols: set[Any] = set(expression.free_symbols)
    return symbols if len(symbols) == 1 else set()


SPECS = (
    PatchingSpec(
        id="torch-export-size-bounds",
        targets=("torch.export._trace:make_constraints",),
        replacement=f"{__name__}:patch_make_constraints",
        requires=("torch>=2.11,<2.14",),
        reason="A program refuses inputs that are shorter than the sum of what torch takes for the smallest sizes.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_export/non_strict_utils.py",),
        proofs=("llama_program",),
        kind="wrap",
    ),
)
