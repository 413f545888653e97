"""Note what is asked of dynamic sizes in Python while a graph is captured, and who asks."""

import ast
import linecache
import operator
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from .decision_lines import compared, has_operands, is_amount, line_matters, matters

_OURS = ("exportcompat.patches", "exportcompat.registry")
_LIBRARIES = ("torch", "sympy", "onnxscript", "onnx", "onnx_ir")
_ORDERS: Mapping[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("Eq", operator.eq),
    ast.NotEq: ("Ne", operator.ne),
    ast.Gt: ("Gt", operator.gt),
    ast.GtE: ("Ge", operator.ge),
    ast.Lt: ("Lt", operator.lt),
    ast.LtE: ("Le", operator.le),
}
"""Relations of sympy, and functions of Python, by node of the source."""

_ASKING = ("torch.fx.experimental.", "torch.utils._sympy", "torch.utils._python_dispatch")
"""Modules that pass a question on."""


@dataclass(frozen=True)
class Decision:
    """One answer.

    Attributes:
        expression: of sympy, on symbols of sizes; it is true for the sample.
        kind: see `Assumption`.
        file: where it was asked.
        line: the line.
        function: the function.
        source: the line's text.
    """

    expression: Any
    kind: str
    file: str
    line: int
    function: str
    source: str


@dataclass(eq=False)
class Capture:
    """The decisions of one capture.

    Attributes:
        decisions: each once.
        ranges: range by the name of a symbol, before anything was decided; bounds of the caller are in it.
        sources: where a symbol comes from, as torch writes it, by its name.
        failed: captures within this one that have failed; torch tries again, with fewer dynamic axes.
        seen: questions that were looked at.
        is_asking: an answer is under way, of which the shape environment must not tell once more.
        factor: how many times as large as in the sample dynamic sizes are while it is traced.
    """

    decisions: dict[Decision, None] = field(default_factory=dict)
    ranges: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    failed: list["Capture"] = field(default_factory=list)
    seen: set[Any] = field(default_factory=set)
    is_asking: bool = False
    factor: int = 1

    def add(self, other: "Capture") -> None:
        """Take over what another capture has found."""
        self.decisions.update(other.decisions)
        self.ranges = {**other.ranges, **self.ranges}


class _Local(threading.local):
    """The captures of a thread, one within the other."""

    def __init__(self) -> None:
        self.captures: list[Capture] = []
        self.mended: list[str] = []


_LOCAL = _Local()
_LOCK = threading.Lock()
_USERS: list[Callable[[], None]] = []
_ASKED = WeakKeyDictionary[Any, set[Any]]()
"""Expressions that code of a model has asked for, by the shape environment that was watched."""


@contextmanager
def noting() -> Iterator[Capture]:
    """Note decisions of this thread meanwhile."""
    with _LOCK:
        _USERS.append(_USERS[0] if _USERS else _hooked())
    made = Capture()
    _LOCAL.captures.append(made)
    try:
        yield made
    finally:
        _LOCAL.captures.remove(made)
        with _LOCK:
            put_back = _USERS.pop()
            if not _USERS:
                put_back()


def current() -> Capture | None:
    """Return the capture of this thread that is under way."""
    return _LOCAL.captures[-1] if _LOCAL.captures else None


def is_one_in_sample(size: Any) -> bool:
    """Say whether a dynamic size is 1 in the sample of the capture that is under way."""
    capture = current()
    return bool(size.node.has_hint() and size.node.hint == (capture.factor if capture else 1))


def asked_by_models(environment: Any) -> Collection[Any] | None:
    """Return the expressions that code of a model has asked a shape environment for; None if nobody watched it."""
    return _ASKED.get(environment)


def _watched(environment: Any) -> set[Any]:
    """Return where the questions of a model to a shape environment are kept."""
    return _ASKED.setdefault(environment, set())


@contextmanager
def mended(question: str) -> Iterator[None]:
    """Take no note of a question, such as `"length > 0"`, while the code runs that asks it.

    It is for patches that make both of its answers the same.
    """
    _LOCAL.mended.append(question)
    try:
        yield
    finally:
        _LOCAL.mended.remove(question)


def _hooked() -> Callable[[], None]:
    """Put the hooks into torch, and return what takes them out."""
    import torch
    from torch._dynamo.variables.tensor import SymNodeVariable
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    hooks: list[tuple[Any, str, Callable[..., Any]]] = [
        (torch.SymBool, "__bool__", lambda method: _answering(method, "branch")),
        (torch.SymInt, "__int__", lambda method: _answering(method, "number")),
        (torch.SymInt, "__index__", lambda method: _answering(method, "number")),
        (torch.SymFloat, "__float__", lambda method: _answering(method, "number")),
        (SymNodeVariable, "evaluate_expr", _evaluating),
        (ShapeEnv, "_log_guard", _guarding),
    ]
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in hooks]
    for (owner, name, method), (_, _, hook) in zip(before, hooks, strict=True):
        setattr(owner, name, hook(method))

    def put_back() -> None:
        for owner, name, method in before:
            setattr(owner, name, method)

    return put_back


def _answering(original: Callable[[Any], Any], kind: str) -> Callable[[Any], Any]:
    """Return a method that makes a Python value of a symbolic one, and notes who asks."""

    def answer(self: Any) -> Any:
        capture = current()
        frame = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__") == "torch":
            frame = frame.f_back  # type: ignore[assignment]
        if capture is None or capture.is_asking or frame is None or not _is_of_a_model(frame):
            return original(self)
        expression = self.node.expr
        # What the caller's bounds decide, no guard is made of.
        _remember(capture, self.node.shape_env, getattr(expression, "free_symbols", ()))
        _watched(self.node.shape_env).add(expression)
        with _asking(capture):
            value = original(self)
            if getattr(expression, "free_symbols", None):
                _note(capture, expression, value, kind, frame)
            elif kind == "branch":
                _note_emptiness(capture, frame)
        return value

    return answer


def _evaluating(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method by which torch's compiler asks for a size, in its strict capture."""

    def evaluate_expr(self: Any, *args: Any, **kwargs: Any) -> Any:
        capture, expression = current(), getattr(getattr(self.sym_num, "node", None), "expr", None)
        if capture is None or capture.is_asking or expression is None:
            return original(self, *args, **kwargs)
        _remember(capture, self.sym_num.node.shape_env, getattr(expression, "free_symbols", ()))
        _watched(self.sym_num.node.shape_env).add(expression)
        with _asking(capture):
            value = original(self, *args, **kwargs)
            place = _compiled_place()
            if place and getattr(expression, "free_symbols", None):
                _note_compiled(capture, _true(expression, value), value, place)
        return value

    return evaluate_expr


def _note_compiled(capture: Capture, condition: Any, value: Any, place: "_Place") -> None:
    """Note an answer of the strict capture, which has no frames: what another operand has decided cannot be told."""
    if not isinstance(value, bool):
        _add(capture, condition, "number", place)
    elif line_matters(place[0], place[1]) and not has_operands(place[0], place[1]):
        _add(capture, condition, "branch", place)


def _guarding(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `ShapeEnv._log_guard`, which is told of every new guard, made to note what operators decide."""

    def _log_guard(self: Any, prefix: str, g: Any, *args: Any, **kwargs: Any) -> Any:
        capture = current()
        if capture is not None:
            _remember(capture, self, g.free_symbols)
            _watched(self)
            if prefix == "eval" and not capture.is_asking:
                _note_guard(capture, g, sys._getframe(1))
        return original(self, prefix, g, *args, **kwargs)

    return _log_guard


def _remember(capture: Capture, environment: Any, symbols: Any) -> None:
    """Keep what is known of symbols before a guard on them changes it."""
    for symbol in symbols:
        if symbol in environment.var_to_range:
            capture.ranges.setdefault(symbol.name, environment.var_to_range[symbol])
        for source in environment.var_to_sources.get(symbol, ())[:1]:
            name = source.name
            capture.sources.setdefault(symbol.name, name() if callable(name) else name)


@contextmanager
def _asking(capture: Capture) -> Iterator[None]:
    capture.is_asking = True
    try:
        yield
    finally:
        capture.is_asking = False


def _root(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_of_a_model(frame: FrameType) -> bool:
    """Say whether a frame runs the code of a model: not that of torch, nor of a patch, which knows what it does.

    Code without a source was generated, such as the checks that torch writes for a program.
    """
    name = str(frame.f_globals.get("__name__", ""))
    if _root(frame) in _LIBRARIES or name.startswith(_OURS):
        return False
    return bool(linecache.getline(frame.f_code.co_filename, frame.f_lineno))


def _true(expression: Any, value: Any) -> Any:
    """Return what holds now that `expression` has been answered by `value`."""
    import sympy

    if isinstance(value, bool):
        return expression if value else sympy.Not(expression)
    return sympy.Eq(expression, value)


def _note(capture: Capture, expression: Any, value: Any, kind: str, frame: FrameType) -> None:
    key = (frame.f_code, frame.f_lasti, expression, kind)
    if key in capture.seen:
        return
    capture.seen.add(key)
    if kind != "branch" or matters(frame):
        _add(capture, _true(expression, value), kind, _place(frame))


def _note_emptiness(capture: Capture, frame: FrameType) -> None:
    """Note a comparison that torch answers by itself since it takes every size for 1 or more; a cache may be empty."""
    key = (frame.f_code, frame.f_lasti)
    if key in capture.seen:
        return
    capture.seen.add(key)
    found = compared(frame)
    condition = _comparison(*found) if found else None
    if condition is not None and matters(frame):
        _add(capture, condition, "shortcut" if is_amount(frame) else "branch", _place(frame))


def _comparison(left: Any, order: type, right: Any) -> Any:
    """Return what the sample meets of a comparison of a size and 0, on symbols that may be 0; None of any other one."""
    import sympy
    import torch

    if not isinstance(left, torch.SymInt) or type(right) is not int or order not in _ORDERS:
        return None
    size = left.node.expr
    free = {symbol: sympy.Symbol(symbol.name, integer=True, nonnegative=True) for symbol in size.free_symbols}
    found = getattr(sympy, _ORDERS[order][0])(size.xreplace(free), right)
    return found if _ORDERS[order][1](left.node.hint, right) else sympy.Not(found)


def _note_guard(capture: Capture, guard: Any, frame: FrameType | None) -> None:
    """Note a guard that no Python code of the model has asked for, if the graph rests on it."""
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_ASKING):
        frame = frame.f_back
    if frame is None or frame.f_code.co_name.startswith("_check"):
        # What `torch._check` demands, eager demands too.
        return
    is_number = _is_number(guard)
    is_choice = _is_choice(guard) and _root(frame) == "torch" and (_chooses(frame) or _orders_remainder(guard))
    if not is_number and not is_choice:
        return
    place = _operator_place(frame)
    if place:
        _add(capture, guard, "number" if is_number else "operator", place)


def _is_number(guard: Any) -> bool:
    """Say whether a size, or something computed from sizes, is a number from now on."""
    import sympy

    return isinstance(guard, sympy.Eq) and any(side.is_number for side in guard.args) and not _has_remainder(guard)


def _has_remainder(guard: Any) -> bool:
    import sympy

    return any(type(part).__name__ in ("Mod", "PythonMod") for part in guard.atoms(sympy.Function))


def _orders_remainder(guard: Any) -> bool:
    """Say whether a guard compares a remainder, as what shares a length out does; checks ask whether it is 0."""
    return _has_remainder(guard) and _is_order(guard)


def _is_order(guard: Any) -> bool:
    """Say whether a guard says which of two is larger."""
    import sympy

    return isinstance(guard, sympy.Rel) and not isinstance(guard, (sympy.Eq, sympy.Ne))


def _is_choice(guard: Any) -> bool:
    """Say whether a guard is about a remainder, or about more than 1.

    Operators treat sizes 0 and 1 apart (empty tensors, broadcasting, strides), with the same outcome.
    """
    if _has_remainder(guard):
        return True
    # One size alone is that of a shortcut.
    return _is_order(guard) and any(side.is_Integer and abs(side) > _common_factor(guard) for side in guard.args)


def _common_factor(relation: Any) -> int:
    """Return the whole number that both sides are multiples of: `32 < 32*size` is a question about 1."""
    import math

    import sympy

    numbers = [sympy.factor_terms(side).as_coeff_Mul()[0] for side in relation.args]
    return math.gcd(*map(int, numbers)) if all(number.is_Integer for number in numbers) else 1


def _chooses(frame: FrameType) -> bool:
    """Say whether a frame of torch takes one of several ways by the answer, and does not only check its arguments."""
    file = frame.f_code.co_filename
    line = linecache.getline(file, frame.f_lineno)
    return "/_decomp/" in file.replace("\\", "/") and "_check" not in line and line_matters(file, frame.f_lineno)


_Place = tuple[str, int, str, str]


def _place(frame: FrameType) -> _Place:
    file, line = frame.f_code.co_filename, frame.f_lineno
    return file, line, frame.f_code.co_name, linecache.getline(file, line).strip()


def _operator_place(frame: FrameType | None) -> _Place | None:
    """Return the line of the model that has called an operator, or that the node comes from that is taken apart."""
    while frame is not None and not _is_of_a_model(frame):
        frame = frame.f_back
    return _node_place() or _compiled_place() or (_place(frame) if frame is not None else None)


def _node_place() -> _Place | None:
    """Return the line that a node of a graph comes from, while an operator of the graph is taken apart."""
    import re

    from torch.fx import traceback

    trace = traceback.get_current_meta().get("stack_trace") if traceback.has_preserved_node_meta() else None
    found = re.findall(r'File "(.+?)", line (\d+), in (\S+)\n *(.*)', trace or "")
    if not found:
        return None
    file, line, function, source = found[-1]
    return file, int(line), function, source.strip()


def _compiled_place() -> _Place | None:
    """Return the line that torch's compiler reads, in its strict capture."""
    from torch._guards import TracingContext

    stack = TracingContext.extract_stack() if TracingContext.try_get() else None
    if not stack:
        return None
    last = stack[-1]
    return last.filename, int(last.lineno or 0), last.name, (last.line or "").strip()


def _add(capture: Capture, expression: Any, kind: str, place: _Place) -> None:
    if not any(question in place[3] for question in _LOCAL.mended):
        capture.decisions.setdefault(Decision(expression, kind, *place))
