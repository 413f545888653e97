"""Make conditions on named axes of decisions on symbols, and leave out those that hold for everything that is valid."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exportcompat.patches.toolkit.cache_names import CACHES
from exportcompat.patches.toolkit.decisions import Capture, Decision
from exportcompat.registry import Assumption

_SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 16, 33, 64, 1000, 4097, 100_003)
"""Sizes at which a condition is tried, besides those that it names itself."""

_TOKENS = ("input_ids", "inputs_embeds", "decoder_input_ids")
_MOST_TRIALS = 4096
_LEAST_OF_TORCH = 2
"""The lower bound of a size for which the caller has set none."""


@dataclass(frozen=True)
class Axis:
    """A dynamic axis of an input.

    Attributes:
        name: what it is called.
        owner: the first input that has it.
        number: which of the axes of that input it is.
        size: in the sample.
    """

    name: str
    owner: str
    number: int
    size: int

    @property
    def is_past(self) -> bool:
        """Whether it is the length of a cache, `(batch, heads, past, head_dim)`, which may be empty."""
        return self.owner.startswith(CACHES) and self.number > 0


def axes_of(program: Any, names: Mapping[str, Mapping[int, str]] | None = None) -> dict[str, Axis]:
    """Return the dynamic axes of an exported program by symbol.

    Args:
        program: a `torch.export.ExportedProgram`.
        names: name of an axis, by the name of an input; an axis without one is called by its input and its number.
    """
    import sympy

    found: dict[str, Axis] = {}
    wanted = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op != "placeholder" or node.name not in wanted or not hasattr(value, "shape"):
            continue
        for axis, size in enumerate(value.shape):
            symbol = getattr(getattr(size, "node", None), "expr", None)
            if isinstance(symbol, sympy.Symbol) and symbol.name not in found:
                name = (names or {}).get(node.name, {}).get(axis) or f"{node.name}_{axis}"
                found[symbol.name] = Axis(_identifier(name), node.name, axis, int(size.node.hint))
    return _with_one_past(found)


def _with_one_past(axes: dict[str, Axis]) -> dict[str, Axis]:
    """Return axes in which layers whose caches are equally long have the axis of the first one."""
    first: dict[tuple[int, int], Axis] = {}
    return {
        symbol: first.setdefault((axis.number, axis.size), axis) if axis.is_past else axis
        for symbol, axis in axes.items()
    }


def _total(axes: Mapping[str, Axis]) -> dict[str, tuple[Axis, Axis]]:
    """Return the axes of masks that are as long as cache and tokens together: the two, by the name of the sum."""
    every = list(dict.fromkeys(axes.values()))
    masks = [axis for axis in every if axis.owner.endswith("attention_mask") and axis.number == 1]
    tokens = [axis for axis in every if axis.owner in _TOKENS and axis.number == 1]
    pasts = [axis for axis in every if axis.is_past]
    parts = [(new, past) for new in tokens for past in pasts]
    sums = {mask.name: pair for mask in masks for pair in reversed(parts) if mask.size == pair[0].size + pair[1].size}
    return {name: pair for name, pair in sums.items() if name not in {axis.name for axis in pair}}


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def assumptions_of(capture: Capture, axes: Mapping[str, Axis]) -> list[Assumption]:
    """Return what the graph takes for granted, each condition and line once."""
    found: dict[Assumption, None] = {}
    for decision in capture.decisions:
        symbols = sorted(getattr(decision.expression, "free_symbols", ()), key=str)
        # A size that is data, not that of an input, is asked for by torch itself, and then it raises an error.
        if symbols and all(symbol.name in axes for symbol in symbols):
            condition = Condition.of(decision.expression, symbols, axes, capture.ranges)
            if not condition.is_always_met():
                found.setdefault(_assumption(decision, condition))
    return list(found)


def _assumption(decision: Decision, condition: "Condition") -> Assumption:
    kind: Any = "shortcut" if decision.kind == "branch" and condition.leaves_out_one else decision.kind
    place = (decision.file, decision.line, decision.function, decision.source)
    return Assumption(condition.text, kind, *place, {axis.name: axis.size for axis in condition.axes})


@dataclass(frozen=True)
class Condition:
    """A condition on named axes.

    Attributes:
        expression: of sympy, on symbols with the names of the axes.
        axes: in the order of their names.
        bounds: least and largest size that the caller allows, for each axis; None for no limit.
        text: the same in Python.
    """

    expression: Any
    axes: tuple[Axis, ...]
    bounds: tuple[tuple[int, int | None], ...]
    text: str

    @classmethod
    def of(
        cls, expression: Any, symbols: list[Any], axes: Mapping[str, Axis], ranges: Mapping[str, Any]
    ) -> "Condition":
        """Make one of an expression on torch's symbols.

        Symbols that have the same name are one axis, and the length of a mask is that of cache and tokens together.
        """
        total = _total(axes)
        mine = {symbol: axes[symbol.name] for symbol in symbols}
        named = {symbol: sum(map(_symbol, total.get(axis.name, (axis,)))) for symbol, axis in mine.items()}
        whole = expression.xreplace(named)
        left = {symbol.name for symbol in getattr(whole, "free_symbols", ())}
        parts = {part.name: part for axis in mine.values() for part in total.get(axis.name, (axis,))}
        own = tuple(axis for name, axis in sorted(parts.items()) if name in left)
        limits = {axis.name: ranges.get(symbol.name) for symbol, axis in mine.items()}
        return cls(whole, own, tuple(_bounds(axis, limits.get(axis.name)) for axis in own), condition_text(whole))

    @property
    def leaves_out_one(self) -> bool:
        """Whether what does not meet it is one size alone, and not an empty cache.

        An amount that is more than 0, such as of padding, is of this kind: adding nothing, or cutting nothing off,
        is what the branch does with 0. A remainder that is not 0 is not.
        """
        import sympy

        left_out = _only_value_outside(self.expression)
        if left_out != 0:
            return left_out is not None
        is_past = len(self.axes) == 1 and self.axes[0].is_past and self.expression.lhs.is_Symbol
        is_remainder = isinstance(self.expression, sympy.Ne) and "%" in self.text
        return not is_past and not is_remainder

    def is_always_met(self) -> bool:
        """Say whether it holds for all sizes that a caller may give."""
        if not getattr(self.expression, "free_symbols", None) or self._is_given():
            return True
        try:
            holds = function_of(self.text, [axis.name for axis in self.axes])
            return _always(holds, self._trials())
        except (SyntaxError, NameError, TypeError):
            # The printer knows no Python for some function of torch: what cannot be tried is said.
            return False

    def _is_given(self) -> bool:
        """Say whether it is one between inputs that the sample just meets, such as past + new = length of a mask.

        Whoever calls the graph gives inputs that belong together. Two axes of one input are another matter: an image
        that is a square says nothing of the next one.
        """
        import sympy

        is_order = isinstance(self.expression, (sympy.Eq, sympy.Ge, sympy.Le))
        if not is_order or len({axis.owner for axis in self.axes}) < 2:
            return False
        difference = self.expression.lhs - self.expression.rhs
        sizes = {axis.name: axis.size for axis in self.axes}
        sample = {symbol: sympy.Integer(sizes[symbol.name]) for symbol in difference.free_symbols}
        nothing = dict.fromkeys(sample, sympy.Integer(0))
        return _vanishes(difference, sample) and _vanishes(difference, nothing)

    def _trials(self) -> Iterator[Any]:
        """Yield sizes, in the order of the axes, at which it is to hold."""
        import sympy

        numbers = {int(number) for number in self.expression.atoms(sympy.Integer)}
        named = {number + step for number in numbers for step in (-1, 0, 1)}
        sizes = []
        for axis, (least, most) in zip(self.axes, self.bounds, strict=True):
            tried = {*_SIZES, *named, axis.size - 1, axis.size, axis.size + 1}
            sizes.append(sorted(size for size in tried if least <= size and (most is None or size <= most)))
        yield from itertools.islice(itertools.product(*sizes), _MOST_TRIALS)
        # Of many axes the product is cut off; each alone is tried with the others as they are in the sample.
        sample = [axis.size for axis in self.axes]
        for place, alone in enumerate(sizes):
            yield from ([*sample[:place], size, *sample[place + 1 :]] for size in alone)


def condition_text(expression: Any) -> str:
    from torch.utils._sympy.printers import PythonPrinter

    printed = str(PythonPrinter().doprint(expression))
    return re.sub(r"\b(?:builtins\.|math\.|torch\.(?:sym_)?)(?=\w)", "", printed)


def function_of(text: str, names: list[str]) -> Callable[..., bool]:
    """Return a condition as a function of its axes, in the order of their names."""
    import math

    known = {name: getattr(math, name) for name in ("floor", "ceil", "trunc", "sqrt")}
    code = compile(f"lambda {', '.join(names)}: bool({text})", "<condition>", "eval")
    made: Callable[..., bool] = eval(code, known)  # noqa: S307 (the text is of sympy's printer)
    return made


def _only_value_outside(expression: Any) -> int | None:
    """Return the one number of 0 or more that does not meet a comparison with a number; None if it is no such one."""
    import sympy

    if isinstance(expression, sympy.Ne):
        numbers = [side for side in expression.args if side.is_Integer]
        return int(numbers[0]) if numbers else -1
    if isinstance(expression, (sympy.Gt, sympy.Lt, sympy.Ge, sympy.Le)) and expression.lts.is_Integer:
        least = int(expression.lts) + isinstance(expression, (sympy.Gt, sympy.Lt))
        # `length > 1` leaves out 1 alone: no call has a length of 0.
        return {1: 0, 2: 1}.get(least)
    return None


def _symbol(axis: Axis) -> Any:
    import sympy

    return sympy.Symbol(axis.name, integer=True, nonnegative=True)


def _bounds(axis: Axis, found: Any) -> tuple[int, int | None]:
    """Return the sizes that a caller may give: those that he has set, and no nothing, but for a cache."""
    import sympy

    least = int(found.lower) if found is not None and isinstance(found.lower, sympy.Integer) else 0
    most = int(found.upper) if found is not None and isinstance(found.upper, sympy.Integer) else None
    allowed = 0 if axis.is_past else 1
    return (allowed if least <= _LEAST_OF_TORCH else least), most


def _vanishes(expression: Any, sizes: Any) -> bool:
    """Say whether an expression is 0 at some sizes; what divides by one of 0 is not."""
    try:
        return bool(expression.xreplace(sizes) == 0)
    except ZeroDivisionError:
        return False


def _always(holds: Callable[..., bool], trials: Iterator[Any]) -> bool:
    for sizes in trials:
        try:
            if not holds(*sizes):
                return False
        except ArithmeticError:
            # A division by a size of zero: no such call is valid.
            continue
    return True


def fixed_axes(capture: Capture, program: Any, names: Mapping[str, Mapping[int, str]]) -> list[Assumption]:
    """Return the axes that were dynamic in a first attempt, became numbers, and are constants of the program.

    Args:
        capture: what was noted.
        program: a `torch.export.ExportedProgram`.
        names: see `axes_of`.
    """
    constant = dict(_constant_axes(program))
    found: dict[Assumption, None] = {}
    for failed in capture.failed:
        for decision in failed.decisions:
            symbols = list(getattr(decision.expression, "free_symbols", ()))
            place = _input_axis(failed.sources.get(symbols[0].name, ""), constant) if len(symbols) == 1 else None
            if decision.kind == "number" and place is not None:
                name = _identifier(names.get(place[0], {}).get(place[1]) or f"{place[0]}_{place[1]}")
                where = (decision.file, decision.line, decision.function, decision.source)
                found.setdefault(Assumption(f"{name} == {constant[place]}", "number", *where, {name: constant[place]}))
    return list(found)


def _constant_axes(program: Any) -> Iterator[tuple[tuple[str, int], int]]:
    wanted = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and node.name in wanted and hasattr(value, "shape"):
            yield from (((node.name, axis), size) for axis, size in enumerate(value.shape) if isinstance(size, int))


def _input_axis(source: str, known: Mapping[tuple[str, int], int]) -> tuple[str, int] | None:
    """Return the input and the axis of `L['kwargs']['x'].size()[1]`, if they are among those that are known."""
    found = re.fullmatch(r"L(?P<path>.+)\.size\(\)\[(?P<axis>\d+)\]", source)
    if not found:
        return None
    path = "_".join(re.findall(r"\w+", found["path"]))
    inputs = [place for place in known if place[1] == int(found["axis"]) and f"_{path}".endswith(f"_{place[0]}")]
    return max(inputs, key=lambda place: len(place[0]), default=None)
