"""Code without what does not matter: comments, docstrings, annotations, layout, and where our own names are from.

Two definitions with the same normal form do the same, if what they refer to does. References to our own definitions
are left open, so that neither a move nor a new name changes anything.
"""

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._source_tree import Definition, Outside, SourceTree, bindings, is_text

OPEN = "\0"
"""Where a reference is left open."""

_IGNORED = {"annotation", "returns", "type_comment", "type_params", "ctx", "kind"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Bound = Mapping[str, "Definition | Outside | str | None"]


@dataclass(frozen=True)
class NormalForm:
    """A definition, ready to be compared.

    Attributes:
        text: what it does, with `OPEN` for each reference to a definition of ours.
        references: these, in order.
    """

    text: str
    references: tuple[Definition, ...]


def normal_form(tree: SourceTree, definition: Definition, *, is_called: bool = True) -> NormalForm:
    """Return the normal form of a definition.

    Args:
        tree: the source.
        definition: the definition; with an empty name what its module does besides, when it is imported.
        is_called: what the definition returns is called as well; if not, the bodies of its inner functions do not
            count, except of those that it calls itself.
    """
    module = tree.module(definition.module)
    nodes = [module.definitions[definition.name]] if definition.name else module.statements
    writer = _Writer(tree, definition.module, elided=() if is_called else _never_called(nodes))
    text = "".join(writer.text(_anonymous(node, definition.name), ()) for node in nodes)
    return NormalForm(text, tuple(writer.references))


def entries(tree: SourceTree, table: Definition, names: Collection[str]) -> NormalForm | None:
    """Return the normal form of those entries of a table that have one of the names; None if it is no such table."""
    value = getattr(tree.module(table.module).definitions.get(table.name), "value", None)
    if not isinstance(value, ast.Dict):
        return None
    writer = _Writer(tree, table.module)
    pairs = zip(value.keys, value.values, strict=True)
    found = [item for key, item in pairs if isinstance(key, ast.Constant) and key.value in names]
    text = "".join(writer.text(item, ()) for item in found)
    return NormalForm(text, tuple(writer.references)) if found else None


def _anonymous(node: ast.stmt, name: str) -> ast.stmt | list[ast.AST]:
    """Return a definition without its own name."""
    if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
        return [ast.Constant("constant"), node.value]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return [ast.Constant("constant"), node.value]
    return node


def _never_called(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names of the inner functions that the function around them does not call."""
    found, called = set[str](), set[str]()
    for top in nodes:
        for node in _own(getattr(top, "body", ())):
            if isinstance(node, _FUNCTIONS):
                found.add(node.name)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called.add(node.func.id)
    return found - called


class _Writer:
    """Writes nodes as texts, and collects what they refer to."""

    def __init__(self, tree: SourceTree, module: str, elided: Collection[str] = ()) -> None:
        self.references: list[Definition] = []
        self._tree = tree
        self._module = module
        self._elided = elided
        path = tree.path(module)
        self._is_package = path is not None and path.name == "__init__.py"
        self._writers: tuple[tuple[tuple[type[ast.AST], ...], Callable[[Any, tuple[Bound, ...]], str]], ...] = (
            ((ast.Name, ast.Attribute), self._name),
            ((ast.Import, ast.ImportFrom), self._import),
            ((ast.Constant,), self._constant),
            ((ast.ClassDef,), self._class),
            (_SCOPES, self._scope),
        )

    def text(self, node: object, scopes: tuple[Bound, ...]) -> str:
        """Return what a node does; `scopes` has the names that the functions around it bind, the inmost last."""
        if isinstance(node, list):
            texts = (self.text(item, scopes) for item in node if not is_text(item))
            return f"[{','.join(filter(None, texts))}]"
        for kinds, write in self._writers:
            if isinstance(node, kinds):
                return write(node, scopes)
        return self._fields(node, scopes) if isinstance(node, ast.AST) else repr(node)

    def _fields(self, node: ast.AST, scopes: tuple[Bound, ...], but: Collection[str] = ()) -> str:
        found = [
            f"{name}={self.text(value, scopes)}"
            for name, value in ast.iter_fields(node)
            if name not in _IGNORED and name not in but and value is not None and value != []
        ]
        return f"{type(node).__name__}({','.join(found)})"

    def _name(self, node: ast.Name | ast.Attribute, scopes: tuple[Bound, ...]) -> str:
        found = self._resolved(node, scopes) if isinstance(node.ctx, ast.Load) else None
        if isinstance(found, Definition):
            return self._open(found)
        if isinstance(found, Outside):
            return f"<{found.name}>"
        return node.id if isinstance(node, ast.Name) else f"{self.text(node.value, scopes)}.{node.attr}"

    def _open(self, found: Definition) -> str:
        self.references.append(found)
        return OPEN

    def _resolved(self, node: ast.AST, scopes: tuple[Bound, ...]) -> Definition | Outside | str | None:
        if isinstance(node, ast.Name):
            for scope in reversed(scopes):
                if node.id in scope:
                    return scope[node.id]
            return self._tree.find(self._module, node.id)
        if isinstance(node, ast.Attribute):
            base = self._resolved(node.value, scopes)
            return self._tree.find(base, node.attr) if isinstance(base, str) else None
        return None

    def _constant(self, node: ast.Constant, scopes: tuple[Bound, ...]) -> str:
        module, colon, name = node.value.partition(":") if isinstance(node.value, str) else ("", "", "")
        if colon and name.isidentifier() and self._tree.path(module):
            found = self._tree.find(module, name)
            if isinstance(found, Definition):
                return self._open(found)
        return repr(node.value)

    def _import(self, node: ast.Import | ast.ImportFrom, scopes: tuple[Bound, ...]) -> str:
        """Leave out what is ours: what its names stand for is written where they are used."""
        names = [target for _, target in self._bindings(node) if not self._tree.path(target[0])]
        return repr(names) if names else ""

    def _bindings(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, tuple[str, str | None]]]:
        return bindings(node, self._module, is_package=self._is_package)

    def _class(self, node: ast.ClassDef, scopes: tuple[Bound, ...]) -> str:
        # Its methods are inner functions, whose names count.
        inner = scopes or ({},)
        head = self._fields(node, scopes, but=("body", "name"))
        return f"class {node.name if scopes else ''} {head}{self.text(node.body, inner)}"

    def _scope(self, node: ast.AST, scopes: tuple[Bound, ...]) -> str:
        name = getattr(node, "name", "") if scopes else ""
        if scopes and name in self._elided:
            return f"elided {name}"
        inner = (*scopes, self._bound(node))
        outside = [self.text(item, scopes) for item in getattr(node, "decorator_list", [])]
        defaults = getattr(node, "args", None)
        if isinstance(defaults, ast.arguments):
            outside += [self.text([*defaults.defaults, *filter(None, defaults.kw_defaults)], scopes)]
        # Not the text of a list, in which the mark of a reference would be another one.
        return f"{name} [{','.join(outside)}] {self._fields(node, inner, but=('decorator_list', 'name'))}"

    def _bound(self, node: ast.AST) -> Bound:
        """Return the names that a function or a comprehension binds, with what those of its imports stand for."""
        found: dict[str, Definition | Outside | str | None] = {}
        foreign = set[str]()
        for item in _own(ast.iter_child_nodes(node)):
            if isinstance(item, ast.Global | ast.Nonlocal):
                foreign.update(item.names)
            elif isinstance(item, ast.Import | ast.ImportFrom):
                found |= {name: self._tree.imported(*target) for name, target in self._bindings(item)}
            else:
                found |= dict.fromkeys(_stored(item))
        return {name: value for name, value in found.items() if name not in foreign}


def _own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes with all that is in them, but not what is in functions, comprehensions and classes of their own."""
    for node in nodes:
        yield node
        if isinstance(node, (*_SCOPES, ast.ClassDef)):
            # A walrus in a comprehension binds a name around it.
            inner = (item.target for item in ast.walk(node) if isinstance(item, ast.NamedExpr))
            yield from inner if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)) else ()
        else:
            yield from _own(ast.iter_child_nodes(node))


def _stored(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
