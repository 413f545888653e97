"""An exported program refuses computed sizes of 0 and 1, at which it would be right.

Symptom: the decoder of Whisper, exported with `TextDecoder`, can only be called with 2 or more states that its cache
does not have, and with a cache that has some: `Guard failed: 32 * encoder_hidden_states.size()[1] != 32 * max(0,
encoder_hidden_states.size()[1] + -1 * past_key_values['0.encoder.key'].size()[2])`.
Cause: torch takes every dynamic size for at least 2 while it traces, and checks nothing of that in a call. Of a size
that is computed, such as that of a slice, it does not know so: its operators ask whether the size is 0 or 1, and
whether strides of such tensors are alike, and each answer is checked in every call.
What is done: conditions that hold wherever all sizes are 2 or more, the computed ones too, are not checked. They go on
being checked for a size that the model's own code has asked about, where the answer may be a branch of the model.
Can go: when torch does not let its operators ask, as with `torch.fx.experimental._config.backed_size_oblivious`.
"""

import itertools
import random
from collections.abc import Callable, Collection, Iterator
from typing import Any

from exportcompat.registry import PatchingSpec

_LEAST = 2
"""What torch takes for the smallest size of a dynamic axis, and does not check."""

_SIZES = (2, 3, 4, 5, 7, 8, 16, 33, 64, 1000)
"""Sizes at which a condition is tried, besides those that it names itself."""

_MOST_TRIALS = 1000


def patch_convert_guards_to_code(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_convert_guards_to_code` leave out what only tells 0 and 1 from other computed sizes."""

    def _convert_guards_to_code(graph_module: Any) -> Any:
        from torch.export.exported_program import _get_shape_env

        from exportcompat.patches.toolkit.decisions import asked_by_models

        environment = _get_shape_env(graph_module)
        asked = asked_by_models(environment) if environment is not None else None
        if asked is None:
            return original(graph_module)
        guards, known = environment.guards, {size for question in asked for size in _computed(question)}
        environment.guards = [guard for guard in guards if not _is_for_small_sizes(guard.expr, asked, known)]
        try:
            return original(graph_module)
        finally:
            environment.guards = guards

    return _convert_guards_to_code


def _is_for_small_sizes(condition: Any, asked: Collection[Any], known: Collection[Any]) -> bool:
    """Say whether a condition can only be broken by a computed size of 0 or 1 that the model has not asked about.

    Args:
        condition: that of a guard.
        asked: the expressions that the model has asked for.
        known: the computed sizes in these.
    """
    computed = list(dict.fromkeys(_computed(condition)))
    if not computed or any(size in known for size in computed):
        return False
    if any(question.has(size) for question in asked for size in computed):
        return False
    return _holds_for_others(condition, computed)


def _computed(expression: Any) -> Iterator[Any]:
    """Yield the sizes that are factors of a condition, or of what it takes the remainder of, and no inputs' own."""
    import sympy

    # `4*a - 4*b` is four times a size.
    found = sympy.factor_terms(expression) if isinstance(expression, sympy.Add) else expression
    if isinstance(found, (sympy.Rel, sympy.Mul)) or type(found).__name__ in ("Mod", "PythonMod"):
        for part in found.args:
            yield from _computed(part)
    elif not found.is_Symbol and found.free_symbols:
        yield found


def _holds_for_others(condition: Any, computed: list[Any]) -> bool:
    """Say whether a condition holds where all sizes are 2 or more, as far as it was tried, which was once at least."""
    from ._decision_conditions import condition_text, function_of

    names = sorted(symbol.name for symbol in condition.free_symbols)
    try:
        holds = function_of(condition_text(condition), names)
        sizes = [function_of(f"({condition_text(size)}) >= {_LEAST}", names) for size in computed]
        tried = [holds(*trial) for trial in _trials(condition, names) if all(size(*trial) for size in sizes)]
    except (SyntaxError, NameError, TypeError, ArithmeticError):
        # The printer knows no Python for some function of torch.
        return False
    return bool(tried) and all(tried)


def _trials(condition: Any, names: list[str]) -> Iterator[tuple[int, ...]]:
    """Yield sizes in the order of names: all pairs of those that are tried, and of longer rows a sample."""
    import sympy

    numbers = {abs(int(number)) + step for number in condition.atoms(sympy.Integer) for step in (-1, 0, 1)}
    sizes = sorted({*_SIZES, *(number for number in numbers if number >= _LEAST)})
    if len(sizes) ** len(names) <= _MOST_TRIALS:
        yield from itertools.product(sizes, repeat=len(names))
        return
    chance = random.Random(0)  # noqa: S311 (the same trials each time)
    yield from (tuple(chance.choices(sizes, k=len(names))) for _ in range(_MOST_TRIALS))


SPECS = (
    PatchingSpec(
        id="torch-export-derived-sizes",
        targets=("torch.export.exported_program:_convert_guards_to_code",),
        replacement=f"{__name__}:patch_convert_guards_to_code",
        requires=("torch>=2.11,<2.14",),
        reason="A program refuses calls in which a slice or another computed size is 0 or 1, which it computes right.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/export/exported_program.py",),
        proofs=("whisper_decoder_program",),
        kind="wrap",
    ),
)
