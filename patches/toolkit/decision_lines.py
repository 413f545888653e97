"""Does it matter how a line of a model was answered? What its source, and the other values in it, tell."""

import ast
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

_PLAIN = (bool, int, float, str, type(None))
_QUIET = ("debug", "info", "warning", "warning_once", "warn", "error", "print")
"""Names of functions that only say something."""

_Parents = dict[ast.AST, ast.AST]
Span = tuple[int | None, int | None, int | None, int | None]


class _UnknownError(Exception):
    """The value of an expression cannot be told without running the model's code."""


def matters(frame: FrameType) -> bool:
    """Say whether another answer to what `frame` asks right now would change what the model computes.

    It does not where the question only guards an error or a message, or where the rest of `and` or `or` has the same
    outcome for both answers. What cannot be told counts as if it mattered.
    """
    tree, parents = _parsed(frame.f_code.co_filename)
    span = _span(frame.f_code, frame.f_lasti)
    node = _node(tree, span) if span else None
    if node is None:
        statement = _statement(tree, frame.f_lineno)
        return _operands_matter(statement, frame) and _effect(statement)
    return _asks(node, parents, frame)


def compared(frame: FrameType) -> tuple[Any, type, Any] | None:
    """Return both sides and the operator of the comparison that `frame` makes right now; None if it makes another.

    It is needed where torch has the answer beforehand, such as that a size is more than 0.
    """
    tree, _ = _parsed(frame.f_code.co_filename)
    span = _span(frame.f_code, frame.f_lasti)
    node = _node(tree, span) if span else None
    if not isinstance(node, ast.Compare) or len(node.ops) > 1:
        return None
    try:
        return _value(node.left, frame), type(node.ops[0]), _value(node.comparators[0], frame)
    except Exception:
        # See `_known_truth`.
        return None


def is_amount(frame: FrameType) -> bool:
    """Say whether a branch uses the very name that is compared: an amount, to add or cut off, that may be nothing."""
    tree, parents = _parsed(frame.f_code.co_filename)
    span = _span(frame.f_code, frame.f_lasti)
    node = _node(tree, span) if span else None
    if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Name):
        return False
    statement: ast.AST | None = node
    while isinstance(statement, ast.expr):
        statement = parents.get(statement)
    body = statement.body if isinstance(statement, ast.If) else []
    return any(isinstance(item, ast.Name) and item.id == node.left.id for part in body for item in ast.walk(part))


def line_matters(file: str, line: int) -> bool:
    """Say the same of a line that is known by its number alone."""
    tree, _ = _parsed(file)
    return _effect(_statement(tree, line))


def has_operands(file: str, line: int) -> bool:
    """Say whether a line asks by `and` or `or`, so that another operand may have decided."""
    tree, _ = _parsed(file)
    return any(isinstance(node, ast.BoolOp) for node in _within(tree, line))


@lru_cache(maxsize=64)
def _parsed(file: str) -> tuple[ast.AST | None, _Parents]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None, {}
    return tree, {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def _span(code: CodeType, instruction: int) -> Span | None:
    """Return where the running instruction stands in the source; Python 3.10 knows its line alone."""
    if sys.version_info < (3, 11):
        return None
    spans = list(code.co_positions())
    return spans[instruction // 2] if 0 <= instruction // 2 < len(spans) else None


def _node(tree: ast.AST | None, span: Span) -> ast.expr | None:
    """Return the outermost expression of a place."""
    line, end_line, column, end_column = span
    found = (
        node
        for node in _within(tree, line)
        if isinstance(node, ast.expr)
        and (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == (line, end_line, column, end_column)
    )
    return next(found, None)


def _within(tree: ast.AST | None, line: int | None) -> Iterator[ast.AST]:
    """Yield the nodes of a line, from the outside to the inside."""
    todo = [] if tree is None or line is None else [tree]
    while todo:
        node = todo.pop(0)
        begin: Any = getattr(node, "lineno", line)
        end: Any = getattr(node, "end_lineno", line)
        if begin <= line <= end:
            yield node
            todo.extend(ast.iter_child_nodes(node))


def _statement(tree: ast.AST | None, line: int) -> ast.AST | None:
    """Return the statement that decides on a line: the innermost one, or an `if` whose test is there."""
    found = [node for node in _within(tree, line) if isinstance(node, ast.stmt)]
    testing = [node for node in found if _tests(node, line)]
    chosen = testing or found
    return chosen[-1] if chosen else None


def _tests(node: ast.AST, line: int) -> bool:
    test = getattr(node, "test", None)
    return test is not None and test.lineno <= line <= test.end_lineno


def _asks(node: ast.AST, parents: _Parents, frame: FrameType) -> bool:
    """Follow an expression to the statement that it decides."""
    if isinstance(node, ast.BoolOp) and _is_settled(node, None, frame):
        # Where the value is kept, the instruction stands for the whole expression.
        return False
    parent = parents.get(node)
    while isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
        if isinstance(parent, ast.BoolOp) and _is_settled(parent, node, frame):
            return False
        node, parent = parent, parents.get(parent)
    return parent is None or node is not getattr(parent, "test", None) or _effect(parent)


def _operands_matter(statement: ast.AST | None, frame: FrameType) -> bool:
    """Say whether a statement has no `and` or `or` that is settled, whichever operand asks."""
    test = getattr(statement, "test", getattr(statement, "value", None))
    return not (isinstance(test, ast.BoolOp) and _is_settled(test, None, frame))


def _is_settled(operation: ast.BoolOp, asking: ast.AST | None, frame: FrameType) -> bool:
    """Say whether an operand beside the one that asks has the value that alone decides."""
    decisive = isinstance(operation.op, ast.Or)
    others = [operand for operand in operation.values if operand is not asking]
    return any(_known_truth(operand, frame) is decisive for operand in others)


def _known_truth(operand: ast.expr, frame: FrameType) -> bool | None:
    """Return the truth of an operand; None where it cannot be told."""
    try:
        return bool(_plain(_value(operand, frame)))
    except Exception:
        # A name that is not bound yet, an attribute that is missing, or what is not to be evaluated at all.
        return None


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of an expression of names, attributes and comparisons of plain values.

    Raises:
        _UnknownError: it is made of something else.
    """
    reader = _READERS.get(type(node))
    if reader is None:
        raise _UnknownError
    return reader(node, frame)


def _constant(node: ast.Constant, frame: FrameType) -> Any:
    return node.value


def _named(node: ast.Name, frame: FrameType) -> Any:
    return _looked_up(node.id, frame)


def _looked_up(name: str, frame: FrameType) -> Any:
    for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if name in names:
            return names[name]
    raise _UnknownError


def _attribute(node: ast.Attribute, frame: FrameType) -> Any:
    return getattr(_value(node.value, frame), node.attr)


def _item(node: ast.Subscript, frame: FrameType) -> Any:
    owner, index = _value(node.value, frame), _value(node.slice, frame)
    if not isinstance(owner, tuple) or not isinstance(index, int):
        raise _UnknownError
    return owner[index]


def _negated(node: ast.UnaryOp, frame: FrameType) -> int:
    value = _plain(_value(node.operand, frame))
    if isinstance(node.op, ast.USub) and isinstance(value, int):
        return -value
    if not isinstance(node.op, ast.Not):
        raise _UnknownError
    return not value


def _plain(value: Any) -> Any:
    if not isinstance(value, _PLAIN):
        raise _UnknownError
    return value


def _joined(node: ast.BoolOp, frame: FrameType) -> bool:
    values = [bool(_plain(_value(operand, frame))) for operand in node.values]
    return any(values) if isinstance(node.op, ast.Or) else all(values)


def _compared(node: ast.Compare, frame: FrameType) -> bool:
    if len(node.ops) > 1:
        raise _UnknownError
    left, right = _value(node.left, frame), _value(node.comparators[0], frame)
    operation = node.ops[0]
    if isinstance(operation, (ast.Is, ast.IsNot)):
        return (left is right) is isinstance(operation, ast.Is)
    if isinstance(operation, (ast.Eq, ast.NotEq)):
        return bool(_plain(left) == _plain(right)) is isinstance(operation, ast.Eq)
    raise _UnknownError


def _called(node: ast.Call, frame: FrameType) -> Any:
    """Call `isinstance`, `hasattr`, or a function without arguments whose name begins with `is_`."""
    function = node.func
    if not isinstance(function, ast.Name) or node.keywords:
        raise _UnknownError
    if function.id in ("isinstance", "hasattr") or (function.id.startswith("is_") and not node.args):
        return _looked_up(function.id, frame)(*(_value(argument, frame) for argument in node.args))
    raise _UnknownError


_READERS: Mapping[type, Callable[[Any, FrameType], Any]] = {
    ast.Attribute: _attribute,
    ast.BoolOp: _joined,
    ast.Call: _called,
    ast.Compare: _compared,
    ast.Constant: _constant,
    ast.Name: _named,
    ast.Subscript: _item,
    ast.UnaryOp: _negated,
}
"""What reads the value of a node, by its class."""


def _effect(statement: ast.AST | None) -> bool:
    """Say whether a statement that branches does something different in its branches, errors and messages apart."""
    if isinstance(statement, ast.Assert):
        return False
    if not isinstance(statement, ast.If):
        return True
    branches = (statement.body, statement.orelse)
    return not (any(map(_refuses, branches)) or all(map(_is_idle, branches)))


def _refuses(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


def _is_idle(body: list[ast.stmt]) -> bool:
    return all(map(_says_only, body))


def _says_only(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Pass, ast.Raise, ast.Assert)):
        return True
    if isinstance(statement, ast.If):
        return _is_idle(statement.body) and _is_idle(statement.orelse)
    if not isinstance(statement, ast.Expr):
        return False
    call = statement.value
    function = getattr(call, "func", None)
    return isinstance(call, ast.Constant) or getattr(function, "attr", getattr(function, "id", "")) in _QUIET
