"""Does a replacement take what a function in unimported sources takes? Neither of them is imported."""

import ast
import importlib.util
from collections.abc import Iterator
from functools import lru_cache
from inspect import Parameter
from pathlib import Path
from typing import Any

from exportcompat.registry import PatchingSpec, signature_mismatch

from ._definitions import Definition, Function

_DEPTH = 4


class _Unknown:
    """A default that is no plain value."""

    def __repr__(self) -> str:
        return "..."


_SOME = _Unknown()


def static_signature_mismatch(spec: PatchingSpec, definition: Definition) -> str | None:
    """Say how the replacement of a spec does not fit a function; None if it does, or if that cannot be told.

    Args:
        spec: the spec.
        definition: what the replacement is to stand for.
    """
    module, _, name = spec.replacement.partition(":")
    found = _made(module, name, definition.name.rpartition(".")[2], 0)
    if found is None or not isinstance(definition.node, Function):
        return None
    return signature_mismatch(_parameters(definition.node), _parameters(found), spec.kind)


def _made(module: str, name: str, wanted: str, depth: int) -> Any:
    """Return the function that a factory returns, as syntax: the one of the wanted name if there are several."""
    factory = _functions(module).get(name)
    if factory is None or depth > _DEPTH:
        return None
    inner = {node.name: node for node in ast.walk(factory) if isinstance(node, Function) and node is not factory}
    values = list(_returned(factory))
    found = [inner[value.id] for value in values if isinstance(value, ast.Name) and value.id in inner]
    calls = (value.func.id for value in values if isinstance(value, ast.Call) and isinstance(value.func, ast.Name))
    found += filter(None, (_made(*_origin(module, factory, call), wanted, depth + 1) for call in calls))
    named = [node for node in found if node.name == wanted]
    # Of several functions of other names, nobody can say which it is.
    return named[0] if named else found[0] if len(found) == 1 else None


def _returned(factory: Any) -> Iterator[ast.expr]:
    """Yield what a function returns itself, not those in it."""
    queue: list[Any] = list(factory.body)
    while queue:
        node = queue.pop(0)
        if isinstance(node, ast.Return) and node.value is not None:
            yield from (node.value.body, node.value.orelse) if isinstance(node.value, ast.IfExp) else (node.value,)
        elif not isinstance(node, (*Function.__args__, ast.ClassDef)):
            queue += ast.iter_child_nodes(node)


def _origin(module: str, factory: ast.AST, name: str) -> tuple[str, str]:
    """Return the module that a function which a factory calls is in, and its name there."""
    for node in (*ast.walk(factory), *_tree(module).body):
        if isinstance(node, ast.ImportFrom) and name in [item.asname or item.name for item in node.names]:
            return importlib.util.resolve_name("." * node.level + (node.module or ""), module.rpartition(".")[0]), name
    return module, name


def _functions(module: str) -> dict[str, Any]:
    return {node.name: node for node in _tree(module).body if isinstance(node, Function)}


@lru_cache(maxsize=None)
def _tree(module: str) -> ast.Module:
    # The modules of patches may import torch; finding them does not.
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return ast.Module([], [])
    return ast.parse(Path(spec.origin).read_text("utf-8"))


def _parameters(node: Any) -> list[Parameter]:
    """Return the parameters of a function without annotations; a default is its value if that is plain."""
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    kinds = [Parameter.POSITIONAL_ONLY] * len(arguments.posonlyargs) + [Parameter.POSITIONAL_OR_KEYWORD] * len(
        arguments.args
    )
    found = [_parameter(item, kind, default) for item, kind, default in zip(plain, kinds, defaults, strict=True)]
    if arguments.vararg:
        found.append(Parameter(arguments.vararg.arg, Parameter.VAR_POSITIONAL))
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found += [_parameter(item, Parameter.KEYWORD_ONLY, default) for item, default in pairs]
    if arguments.kwarg:
        found.append(Parameter(arguments.kwarg.arg, Parameter.VAR_KEYWORD))
    return found


def _parameter(item: ast.arg, kind: Any, default: ast.expr | None) -> Parameter:
    return Parameter(item.arg, kind, default=Parameter.empty if default is None else _value(default))


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _SOME
