"""Definitions in sources that are not imported: which function or class does a dotted name stand for?

Names are followed as Python would: through imports by name, base classes and conditions, whose first branch counts.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from exportcompat.registry import of_node

from ._archive import Sources

_DEPTH = 32
"""Imports and base classes that are followed; more of them is a circle."""

_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What the parser raises for a text that is no Python, or made to exhaust it."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Table = dict[str, ast.AST]


@dataclass(frozen=True)
class Definition:
    """A function or class in the text of a module.

    Attributes:
        module: where its text is.
        name: dotted name in there.
        node: its syntax; None for what has no text, as a built-in function.
        text: the text of the module.
    """

    module: str
    name: str
    node: ast.AST | None
    text: str

    @cached_property
    def fingerprint(self) -> str:
        """What `fingerprint` gives for the same thing when it is imported."""
        return of_node(self.node)

    @property
    def signature(self) -> str:
        """The arguments without annotations; empty if it is no function."""
        return f"({_arguments(self.node.args)})" if isinstance(self.node, Function) else ""

    @property
    def source(self) -> str:
        """The lines from its first decorator to its end, as they are."""
        lines = self.text.splitlines(keepends=True)
        return "".join(lines[first_line(self.node) - 1 : getattr(self.node, "end_lineno", 0)]) if self.node else ""


class Package:
    """The definitions in the sources of a package.

    Args:
        sources: the texts of its modules.
    """

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._trees: dict[str, ast.Module | None] = {}
        self._tables: dict[str, Table] = {}

    def find(self, module: str, name: str) -> Definition | None:
        """Return what a dotted name stands for in a module; None if there is no such thing in the package."""
        return self._find(module, name.split("."), 0)

    def initialiser(self, module: str, name: str) -> Definition | None:
        """Return the `__init__` that a class has, its own or an inherited one; one without a text if it has none."""
        found = self.find(module, name)
        if found is None or not isinstance(found.node, ast.ClassDef):
            return None
        method = self._member(found, "__init__", 0)
        return method or Definition(found.module, f"{found.name}.__init__", None, "")

    def tree(self, module: str) -> ast.Module | None:
        """Return the syntax of a module; None if there is no such module, or it is no Python."""
        if module not in self._trees:
            self._trees[module] = parsed(self.sources[module]) if module in self.sources else None
        return self._trees[module]

    def table(self, module: str) -> Table:
        """Return what the names of a module stand for."""
        if module not in self._tables:
            tree = self.tree(module)
            self._tables[module] = {} if tree is None else names_in(tree.body)
        return self._tables[module]

    def _find(self, module: str, parts: list[str], depth: int) -> Definition | None:
        if depth > _DEPTH:
            return None
        node = self.table(module).get(parts[0])
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._imported(module, node, parts, depth)
        if node is None:
            return self._starred(module, parts, depth)
        found: Definition | None = self._definition(module, parts[0], node, depth)
        for part in parts[1:]:
            found = self._member(found, part, depth) if found else None
        return found

    def _starred(self, module: str, parts: list[str], depth: int) -> Definition | None:
        """Return what a name stands for that a module has by `from ... import *`; the last of them counts."""
        tree = self.tree(module)
        stars = [node for node in (tree.body if tree else ()) if _is_star(node)]
        if parts[0].startswith("_"):
            return None
        found = (self._find(self._origin(module, node), parts, depth + 1) for node in reversed(stars))
        return next(filter(None, found), None)

    def _origin(self, module: str, node: Any) -> str:
        return _absolute(module, node, is_package=f"{module}.__init__" in self.sources or self._has_children(module))

    def _definition(self, module: str, name: str, node: ast.AST, depth: int) -> Definition | None:
        if isinstance(node, (ast.ClassDef, Function)):
            return Definition(module, name, node, self.sources[module])
        # `name = other` is another name for it, and what a call returns has no text of its own.
        if isinstance(node, ast.Name):
            return self._find(module, [node.id], depth + 1)
        return Definition(module, name, None, "")

    def _imported(
        self, module: str, node: ast.Import | ast.ImportFrom, parts: list[str], depth: int
    ) -> Definition | None:
        (alias,) = [item for item in node.names if parts[0] in (item.asname, item.name)]
        if isinstance(node, ast.Import):
            return None
        return self._find(self._origin(module, node), [alias.name, *parts[1:]], depth + 1)

    def _has_children(self, module: str) -> bool:
        return any(name.startswith(f"{module}.") for name in self.sources)

    def _member(self, owner: Definition, name: str, depth: int) -> Definition | None:
        """Return a member of a class, its own or that of a base class."""
        if not isinstance(owner.node, ast.ClassDef) or depth > _DEPTH:
            return None
        table = names_in(owner.node.body)
        if name in table:
            node = table[name]
            if isinstance(node, ast.Name) and node.id in table:
                node = table[node.id]
            is_text = isinstance(node, (ast.ClassDef, Function))
            return Definition(owner.module, f"{owner.name}.{name}", node if is_text else None, owner.text)
        for base in owner.node.bases:
            parent = self._find(owner.module, _dotted(base), depth + 1)
            if parent and (found := self._member(parent, name, depth + 1)):
                return found
        return None


def _is_star(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"


def parsed(text: str) -> ast.Module | None:
    """Return the syntax of a module; None if it is no Python."""
    try:
        return ast.parse(text)
    except _UNREADABLE:
        return None


def names_in(body: list[Any]) -> Table:
    """Return what statements give names to; of the branches of a condition, the first that does."""
    table: Table = {}
    for statement in body:
        if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            table[statement.name] = statement
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            table.update((item.asname or item.name, statement) for item in statement.names)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            table.update((item.id, statement.value or statement) for item in targets if isinstance(item, ast.Name))
        else:
            # The first branch of a condition is for the usual case, and what is outside counts more than what it has.
            table = {**_branches(statement), **table}
    return table


def _branches(statement: ast.stmt) -> Table:
    table: Table = {}
    for name in ("body", "handlers", "orelse", "finalbody"):
        for part in getattr(statement, name, []):
            inner = names_in(part.body) if isinstance(part, ast.ExceptHandler) else names_in([part])
            # A definition stands for what could not be imported.
            table = {name: inner.get(name, node) if _is_import(node) else node for name, node in table.items()}
            table = {**inner, **table}
    return table


def _is_import(node: ast.AST) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def units(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions and classes of a module with their dotted names, those in classes included."""
    queue: list[tuple[str, ast.AST]] = list(names_in(tree.body).items())
    for name, node in queue:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield name, node
        if isinstance(node, ast.ClassDef):
            queue += [(f"{name}.{inner}", item) for inner, item in names_in(node.body).items()]


def first_line(node: Any) -> int:
    """Return the number of the first line of a function or class, its decorators included."""
    lines: list[int] = [item.lineno for item in (node, *getattr(node, "decorator_list", []))]
    return min(lines)


def _absolute(module: str, node: ast.ImportFrom, *, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _dotted(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Subscript):
        return _dotted(node.value)
    if isinstance(node, ast.Attribute):
        return [*_dotted(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else [""]


def _arguments(arguments: ast.arguments) -> str:
    bare = copy.deepcopy(arguments)
    for item in ast.walk(bare):
        if isinstance(item, ast.arg):
            item.annotation = None
    text = ast.unparse(ast.Lambda(bare, ast.Constant(value=0)))
    return text.removeprefix("lambda").removesuffix(": 0").strip()
