"""Our own source, read and never run: which definition a name of a module stands for."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

Names = dict[str, tuple[str, str | None]]
"""What a module imports: the module that a name is from, and the name there; None for the module itself."""


@dataclass(frozen=True)
class Definition:
    """A function, a class or a constant at the top of a module.

    Attributes:
        module: the full name of the module.
        name: the name there.
    """

    module: str
    name: str


@dataclass(frozen=True)
class Outside:
    """What is not ours: a name of another package.

    Attributes:
        name: the full name.
    """

    name: str


@dataclass
class Module:
    """One file.

    Attributes:
        definitions: the statement that makes each name.
        statements: what else is run when the module is imported.
        imports: what it imports when it is run.
        promised: what it imports for type checkers alone, and a `__getattr__` of the module later.
    """

    definitions: dict[str, ast.stmt] = field(default_factory=dict)
    statements: list[ast.stmt] = field(default_factory=list)
    imports: Names = field(default_factory=dict)
    promised: Names = field(default_factory=dict)


class SourceTree:
    """The source of a package whose subpackages may lie in folders of their own.

    Args:
        folders: where the files of a package are, by its full name; the longest name that fits counts.
        edits: the text of modules, by their full names, in place of what is in their files.
    """

    def __init__(self, folders: Mapping[str, Path], edits: Mapping[str, str] | None = None) -> None:
        self._folders = dict(sorted(folders.items(), key=lambda item: -len(item[0])))
        self._edits = edits or {}
        self._modules: dict[str, Module] = {}
        self._paths: dict[str, Path | None] = {}
        self.forms: dict[Any, Any] = {}
        """What was made of definitions, by what begins with their module; kept here, so that it is made once."""

    def edited(self, module: str, text: str) -> "SourceTree":
        """Return this tree with another text of one module; all else is shared."""
        other = SourceTree(self._folders, {**self._edits, module: text})
        other._modules = {name: found for name, found in self._modules.items() if name != module}
        other._paths = self._paths
        other.forms = {part: form for part, form in self.forms.items() if part[0] != module}
        return other

    def path(self, module: str) -> Path | None:
        """Return the file of a module of ours; None if it is not ours."""
        if module not in self._paths:
            self._paths[module] = self._find_path(module)
        return self._paths[module]

    def _find_path(self, module: str) -> Path | None:
        for package, folder in self._folders.items():
            if module == package or module.startswith(f"{package}."):
                stem = folder.joinpath(*module[len(package) + 1 :].split(".")) if module != package else folder
                return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)
        return None

    def module(self, name: str) -> Module:
        """Return what is in a module of ours."""
        if name not in self._modules:
            path = self.path(name)
            if path is None:
                raise LookupError(f"there is no module {name} of ours")
            text = self._edits.get(name) or path.read_text("utf-8")
            self._modules[name] = _read(text, name, is_package=path.name == "__init__.py")
        return self._modules[name]

    def find(self, module: str, name: str) -> "Definition | Outside | str | None":
        """Return what a name of a module of ours stands for.

        Returns:
            A definition; what is not ours; the full name of a module of ours; None if the module has no such name.
        """
        found = self.module(module)
        if name in found.definitions:
            return Definition(module, name)
        if name in found.imports:
            return self.imported(*found.imports[name])
        if self.path(f"{module}.{name}"):
            return f"{module}.{name}"
        if "__getattr__" in found.definitions and name in found.promised:
            return self.imported(*found.promised[name])
        return None

    def definition(self, module: str, name: str) -> Definition:
        """Return the definition that a name of a module of ours stands for.

        Raises:
            LookupError: there is none.
        """
        found = self.find(module, name) if self.path(module) else None
        if isinstance(found, Definition):
            return found
        raise LookupError(f"{module}:{name} is no definition of ours")

    def is_function(self, definition: Definition) -> bool:
        """Say whether it is a function; what else there is, a class or a value, holds what anybody may call."""
        node = self.module(definition.module).definitions[definition.name]
        return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)

    def imported(self, module: str, name: str | None) -> "Definition | Outside | str | None":
        """Return what an import binds."""
        if not self.path(module):
            return Outside(".".join(filter(None, (module, name))))
        return module if name is None else self.find(module, name)


@lru_cache(maxsize=4096)
def _read(text: str, name: str, *, is_package: bool) -> Module:
    found = Module()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.imports |= dict(bindings(node, name, is_package=is_package))
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            imports = (item for item in node.body if isinstance(item, ast.Import | ast.ImportFrom))
            for item in imports:
                found.promised |= dict(bindings(item, name, is_package=is_package))
        elif not is_text(node):
            names = list(_made(node))
            found.definitions |= dict.fromkeys(names, node)
            found.statements += [] if names else [node]
    return found


def bindings(
    node: ast.Import | ast.ImportFrom, module: str, *, is_package: bool
) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Yield the names that an import binds, each with the module and the name there that it stands for."""
    if isinstance(node, ast.Import):
        for item in node.names:
            top = item.name.partition(".")[0]
            yield (item.asname, (item.name, None)) if item.asname else (top, (top, None))
        return
    package = module.split(".") if is_package else module.split(".")[:-1]
    base = package[: len(package) - node.level + 1] if node.level else []
    source = ".".join([*base, *([node.module] if node.module else [])])
    for item in node.names:
        yield item.asname or item.name, (source, item.name)


def is_text(node: ast.AST) -> bool:
    """Say whether a statement is a docstring, or another text that does nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _made(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top of a module makes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif not isinstance(node, ast.Delete):
        yield from (
            item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
        )
