"""Where a file may stop being right: the conditions in its metadata, and calls on both sides of each."""

import ast
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

from exportcompat._verification import PREFIX, Discrepancy, Schedule

from ._dynamic_axes import BATCH, PAST, SEQUENCE, TOTAL

LONGEST = 4200
"""The largest size that is tried: a switch at 4,096 is met on both sides."""

AFFORDABLE = 120.0
"""Seconds that one sequence of calls may take beyond the usual ones."""

_SWITCHES = 4
"""Switches of one condition that are tried, those that are nearest to the sample."""

_USUAL = 36
"""Below this length the usual sequences have every length."""

_SMALL = 256
"""Up to this length a batch with padding is tried, too."""

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "ceil": math.ceil,
    "float": float,
    "floor": math.floor,
    "int": int,
    "max": max,
    "min": min,
    "round": round,
    "sqrt": math.sqrt,
    "trunc": math.trunc,
}
_NODES = (
    ast.Expression,
    ast.BoolOp,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.Call,
    ast.Name,
    ast.Constant,
    ast.boolop,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
    ast.expr_context,
)


@dataclass(frozen=True)
class Condition:
    """A condition on the sizes of axes under which a file is right.

    Attributes:
        text: a Python expression on names of axes.
        where: line of the model that asked for it.
        names: the axes.
        sample: their sizes in the sample.
    """

    text: str
    where: str
    names: tuple[str, ...]
    sample: Mapping[str, int] = field(hash=False)
    code: CodeType = field(repr=False)

    def holds(self, sizes: Mapping[str, int]) -> bool | None:
        """Say whether it holds; None where the sizes do not tell."""
        if any(name not in sizes for name in self.names):
            return None
        try:
            # Nothing but arithmetic has passed `_compiled`.
            return bool(eval(self.code, {"__builtins__": {}, **_FUNCTIONS}, dict(sizes)))  # noqa: S307
        except ArithmeticError:
            return None

    def __str__(self) -> str:
        return f"{self.text} ({self.where})"


def conditions(metadata: Mapping[str, str]) -> list[Condition]:
    """Return the conditions that the `metadata_props` of a file name; what cannot be read is left out."""
    try:
        items = json.loads(metadata.get(f"{PREFIX}assumptions") or "[]")
    except ValueError:
        return []
    found = (_condition(item) for item in items if isinstance(item, dict))
    return list(dict.fromkeys(item for item in found if item is not None))


def _condition(item: Mapping[str, Any]) -> Condition | None:
    text = str(item.get("condition", ""))
    tree = _parsed(text)
    if tree is None:
        return None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in _FUNCTIONS}
    where = f"{item.get('file')}:{item.get('line')}: {item.get('source')}"
    return Condition(text, where, tuple(sorted(names)), item.get("sample") or {}, compile(tree, text, "eval"))


def _parsed(text: str) -> ast.Expression | None:
    """Return an expression that is arithmetic and comparisons alone; a file may come from anywhere."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return None
    return tree if all(map(_is_arithmetic, ast.walk(tree))) else None


def _is_arithmetic(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (bool, int, float))
    # A power of a power may take for ever.
    return isinstance(node, _NODES) and not isinstance(node, (ast.LShift, ast.Pow))


def call_sizes(batch: int, past: int, new: int) -> dict[str, int]:
    """Return the sizes of a decoder's axes in a call."""
    return {BATCH: batch, PAST: past, SEQUENCE: new, TOTAL: past + new}


def outside(found: Iterable[Condition], sizes: Mapping[str, int]) -> list[Condition]:
    """Return the conditions that sizes do not meet."""
    return [condition for condition in found if condition.holds(sizes) is False]


def labelled(row: Discrepancy, broken: Sequence[Condition]) -> Discrepancy:
    """Return a row that says which conditions its call does not meet."""
    if not broken:
        return row
    return replace(row, call=f"{row.call}, outside of {'; '.join(map(str, broken))}")


def switches(condition: Condition, batch: int = 1) -> list[int]:
    """Return the lengths L of a text between which and L + 1 a condition changes, nearest to the sample first."""
    start = sum(condition.sample.get(name, 0) for name in (SEQUENCE, PAST)) or condition.sample.get(TOTAL, 0)
    found: set[int] = set()
    # A text at once, or its last token alone.
    for is_step in (False, True):
        before: bool | None = None
        for length in range(1, LONGEST):
            past = length - 1 if is_step else 0
            now = condition.holds(call_sizes(batch, past, length - past))
            if length > 1 and now is not before:
                found.add(length - 1)
            before = now
    return sorted(found, key=lambda length: abs(length - start))[:_SWITCHES]


def around_lengths(lengths: Iterable[int], rows: Sequence[Discrepancy]) -> tuple[list[Schedule], list[str]]:
    """Return sequences of calls that pass through each length of a text, and what is too dear to try.

    Args:
        lengths: in tokens; the usual calls have the small ones.
        rows: the usual calls, which tell how long a call takes.
    """
    wanted = [length for length in lengths if length >= _USUAL]
    dear = [length for length in wanted if _seconds(rows, length) > AFFORDABLE]
    made = [schedule for length in wanted if length not in dear for schedule in _crossing(length)]
    return made, [f"not tried at length {length + 1}: it takes about {_seconds(rows, length):.0f} s" for length in dear]


def schedules(found: Iterable[Condition], rows: Sequence[Discrepancy]) -> tuple[list[Schedule], list[str]]:
    """Return sequences of calls that pass from one side of each condition to the other, and what is too dear to try.

    Args:
        found: the conditions.
        rows: the usual calls, which tell how long a call takes.
    """
    made: dict[Schedule, None] = {}
    dear: list[str] = []
    for condition in found:
        for length in switches(condition):
            seconds = _seconds(rows, length)
            if seconds > AFFORDABLE:
                dear.append(f"not tried at length {length + 1}, about {seconds:.0f} s: {condition}")
            elif length >= _USUAL:
                made.update(dict.fromkeys(_crossing(length)))
    return list(made), dear


def _crossing(length: int) -> Iterator[Schedule]:
    yield Schedule(1, (length - 1, 1, 1, 1))
    yield Schedule(1, (length + 1, 1))
    if length <= _SMALL:
        yield Schedule(3, (length + 1, 1), padding=2)


def _seconds(rows: Sequence[Discrepancy], length: int) -> float:
    """Estimate the time of a long call from that of the longest one so far; attention grows with the square."""
    longest = max((row for row in rows if row.new), key=lambda row: row.new or 0, default=None)
    if longest is None:
        return 0.0
    growth = length / (longest.new or 1)
    return (longest.torch_ms + longest.onnx_ms) / 1000 * growth * max(1.0, length / 1024)


def sizes_around(condition: Condition, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield sizes just outside of a condition and just inside, with one axis changed, nearest first; up and down."""
    for name in condition.names:
        for step in (1, -1):
            size = sizes.get(name, 0)
            while 1 <= size + step <= LONGEST and condition.holds({**sizes, name: size}):
                size += step
            if size != sizes.get(name) and condition.holds({**sizes, name: size}) is False:
                yield {**sizes, name: size}
                yield {**sizes, name: size - step}
