"""litert-torch's `register_patch`: context managers that put classes of its own into modules of transformers.

They are read and not run: what they replace stands in them as plain assignments. So nothing of litert-torch, which
needs a converter of its own, has to be imported in order to say whether its patches still fit.
"""

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from exportcompat._drift import INSTALLED, sources_of
from exportcompat.registry import PatchingSpec, Registry

from ._foreign import as_id, as_it_fits, as_target, ranges_declared
from ._installed_sources import InstalledSources

PACKAGE = "litert-torch"
_FOLDER = "litert_torch.generative.export_hf.model_ext."
_URL = "https://github.com/google-ai-edge/litert-torch/blob/main/"


@dataclass(frozen=True)
class Assignment:
    """What one context manager puts into one place.

    Attributes:
        function: the name of the context manager.
        module: where it is.
        target: what it replaces.
        value: what with, as a dotted path.
        models: the model types that it is for.
    """

    function: str
    module: str
    target: str
    value: str
    models: tuple[str, ...]


def from_litert_torch(source: str = INSTALLED, *, model_type: str = "") -> Registry:
    """Return what the patches of litert-torch replace, as specs.

    It is for looking at releases first of all. In a scope, a class that is made with other arguments than upstream's is
    refused, and the report says so, as it does of a class that litert-torch makes within a function.

    The range of each is what litert-torch says that it works with, and the sources are compared with what is installed.

    Args:
        source: `"installed"`, a version, or the path of a wheel, an sdist or a folder.
        model_type: such as `"qwen3"`: the patches for this model alone. Where those of several models write to one
            place, the first counts otherwise, which is enough to look at releases, and not to apply it.

    Raises:
        ExportCompatError: there is no litert-torch, or it cannot be read.
    """
    sources = sources_of(source, PACKAGE)
    found: dict[str, Assignment] = {}
    for module, text in sorted(sources.items()):
        if module.startswith(_FOLDER) and "register_patch" in text:
            for item in assignments(module, text):
                if not model_type or model_type in item.models:
                    found.setdefault(item.target, item)
    return Registry(map(_spec, found.values()), fingerprints=InstalledSources(), origin="litert_torch")


def assignments(module: str, text: str) -> Iterator[Assignment]:
    """Yield what the context managers of a module put where, but for what they give back at their end.

    Args:
        module: its name.
        text: its source.
    """
    tree = ast.parse(text)
    own = {node.name for node in _before_the_end(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    known = {**{name: f"{module}.{name}" for name in own}, **_imported(tree)}
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        if models := _models(function):
            names = {**known, **_imported(function)}
            for target, value in _written(function, names):
                yield Assignment(function.name, module, target, value, models)


def _models(function: ast.FunctionDef) -> tuple[str, ...]:
    """Return the model types that a context manager is registered for."""
    calls = [item for item in function.decorator_list if isinstance(item, ast.Call)]
    found = [item for item in calls if ast.unparse(item.func).rpartition(".")[2] == "register_patch"]
    constants = [node.value for item in found for node in ast.walk(item) if isinstance(node, ast.Constant)]
    return tuple(text for text in constants if isinstance(text, str))


def _imported(tree: ast.AST) -> dict[str, str]:
    """Return the dotted paths of what is imported, by the names that it has."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                # `import a.b` gives the name `a`.
                first = item.name.partition(".")[0]
                found[item.asname or first] = item.name if item.asname else first
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {item.asname or item.name: f"{node.module}.{item.name}" for item in node.names}
    return found


def _written(function: ast.FunctionDef, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield target and value of each assignment before the `yield`."""
    for node in _before_the_end(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            (place,), value = node.targets, _path(node.value, names)
            if isinstance(place, ast.Name):
                names = {**names, place.id: value}
            elif target := _target(place, names):
                yield target, value


def _target(place: ast.expr, names: dict[str, str]) -> str:
    """Return what an attribute or an item is as a target; empty if it cannot be said."""
    owner = _path(place.value, names) if isinstance(place, (ast.Attribute, ast.Subscript)) else ""
    if owner and isinstance(place, ast.Attribute):
        return as_target(f"{owner}.{place.attr}")
    if owner and isinstance(place, ast.Subscript) and isinstance(place.slice, ast.Constant):
        return f"{as_target(owner)}[{place.slice.value!s}]"
    return ""


def _before_the_end(node: Any) -> Iterator[ast.stmt]:
    """Yield the statements of a function or module, but for those of an `else` or `finally`."""
    for item in node.body:
        yield item
        if isinstance(item, (ast.Try, ast.With, ast.If)):
            yield from _before_the_end(item)


def _path(node: ast.expr, names: dict[str, str]) -> str:
    """Return the dotted path of an expression; empty if it has none."""
    if isinstance(node, ast.Attribute) and (owner := _path(node.value, names)):
        return f"{owner}.{node.attr}"
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""


def _spec(item: Assignment) -> PatchingSpec:
    name = item.target.rpartition(":")[2]
    return PatchingSpec(
        id=as_id(PACKAGE, item.module.removeprefix(_FOLDER).partition(".")[0], name),
        targets=(item.target,),
        replacement=_Named(item.value, item.function),  # type: ignore[arg-type]
        requires=ranges_declared(PACKAGE, [item.target]),
        reason=f"litert-torch puts {item.value or 'something else'} there for {', '.join(item.models)}.",
        upstream=(f"{_URL}{item.module.replace('.', '/')}.py",),
        kind="wrap",
    )


class _Named:
    """A factory that imports its replacement when it is asked for one.

    Args:
        path: its dotted path; empty if it is computed within a function.
        function: that function.
    """

    def __init__(self, path: str, function: str) -> None:
        self._path = path
        self.__name__ = function

    def __call__(self, original: Any) -> Any:
        if not self._path:
            raise TypeError(f"what {self.__name__} puts there is not known without running it")
        module, _, name = as_target(self._path).partition(":")
        return as_it_fits(reduce(getattr, name.split("."), importlib.import_module(module)), original)
