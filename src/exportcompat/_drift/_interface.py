"""The names by which a release is used: arguments, fields of results, parts of caches, classes. Nothing is imported.

Reading the syntax of all models takes ten times as long. So classes are cut out of the texts of modules by their
indentation, and signatures out of classes by their parentheses; only those pieces are parsed, equal ones once.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ._archive import Sources
from ._definitions import Function, parsed

PREPARATION = "prepare_inputs_for_generation"
"""What makes of the arguments of `generate` those of `forward`."""

_TOP = re.compile(r"\n(?=[^\s)#])")
_CLASS = re.compile(r"class (\w+)\s*(?:\(([^)]*)\))?\s*:")
_DEFINED = re.compile(r"(?:class|def) (\w+)\b")
_OTHER_FRAMEWORKS = ("modeling_tf_", "modeling_flax_")
_CACHES, _GENERATION = "cache_utils", "generation.utils"
_MIXIN = "GenerationMixin"
_DEPTH = 16


@dataclass(frozen=True)
class Interface:
    """The names by which a release of a package is used.

    Attributes:
        version: the release.
        counts: in how many places each name is. A name is `forward(argument)` of a model, `layer(argument)` of another
            module, `output.field` of a result; `Class(argument)`, `Class.attribute` and `Class.method(argument)` of a
            cache or of what models inherit `generate` from; or `name` for any class or function of a module.
    """

    version: str
    counts: Mapping[str, int]


@dataclass(frozen=True)
class _Class:
    """One class as its text says it."""

    name: str
    bases: tuple[str, ...]
    text: str


def interface_of(sources: Sources) -> Interface:
    """Return the names by which a release is used, from its sources alone."""
    counts, root = Counter[str](), sources.package
    for module, text in sources.items():
        if module.startswith(f"{root}.models.") and not any(word in module for word in _OTHER_FRAMEWORKS):
            counts.update(_of_models(text))
        counts.update(_defined(text))
    for module in (_CACHES, _GENERATION):
        counts.update(_of_classes(sources.get(f"{root}.{module}", "")))
    return Interface(sources.version, counts)


@lru_cache(maxsize=None)
def _defined(text: str) -> tuple[str, ...]:
    return tuple(match[1] for part in _TOP.split(text) if (match := _DEFINED.match(part)))


@lru_cache(maxsize=None)
def _of_models(text: str) -> tuple[str, ...]:
    """Return the arguments of the `forward`s in a module, and the fields of its results."""
    return tuple(name for item in _classes(text) for name in (*_forward(item), *_fields(item)))


def _forward(item: _Class) -> Iterator[str]:
    is_model = any("PreTrainedModel" in base or base == _MIXIN for base in item.bases)
    yield from (f"{'forward' if is_model else 'layer'}({name})" for name in _arguments(item.text, "forward") or ())


def _fields(item: _Class) -> Iterator[str]:
    tree = _first(item.text) if any("Output" in base for base in item.bases) else None
    if isinstance(tree, ast.ClassDef):
        yield from (f"output.{name}" for name in _annotated(tree))


def _of_classes(text: str) -> Iterator[str]:
    """Yield what the classes of a module have and take, inherited or their own."""
    known = {item.name: item for item in _classes(text)}
    for name in known if _MIXIN not in known else (_MIXIN,):
        for method, arguments in _methods(known, name, 0).items():
            yield f"{name}.{method}"
            head = name if method == "__init__" else f"{name}.{method}"
            yield from (f"{head}({argument})" for argument in arguments)
        yield from (f"{name}.{attribute}" for attribute in _attributes(known, name, 0))


def _methods(known: Mapping[str, _Class], name: str, depth: int) -> dict[str, tuple[str, ...]]:
    """Return the methods of a class with their arguments."""
    if name not in known or depth > _DEPTH:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for base in reversed(known[name].bases):
        found |= _methods(known, base, depth + 1)
    tree = _first(known[name].text)
    own = {item.name: _named(item) for item in getattr(tree, "body", ()) if isinstance(item, Function)}
    return {**found, **own}


def _attributes(known: Mapping[str, _Class], name: str, depth: int) -> set[str]:
    """Return the attributes of a class that are no methods of it: those that it sets, or that its body has."""
    if name not in known or depth > _DEPTH:
        return set()
    found = set[str]().union(*(_attributes(known, base, depth + 1) for base in known[name].bases))
    tree = _first(known[name].text)
    if not isinstance(tree, ast.ClassDef):
        return found
    values = [target for item in tree.body if isinstance(item, ast.Assign) for target in item.targets]
    return found | {*_annotated(tree), *(item.id for item in values if isinstance(item, ast.Name)), *_set(tree)}


def _set(tree: ast.AST) -> Iterator[str]:
    for item in ast.walk(tree):
        if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store) and _is_self(item.value):
            yield item.attr


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _annotated(tree: ast.ClassDef) -> list[str]:
    targets = (item.target for item in tree.body if isinstance(item, ast.AnnAssign))
    return [item.id for item in targets if isinstance(item, ast.Name)]


def _classes(text: str) -> Iterator[_Class]:
    for part in _TOP.split(text):
        head = _CLASS.match(part)
        if head:
            yield _Class(head[1], tuple(base.strip() for base in (head[2] or "").split(",")), part)


def _arguments(text: str, method: str) -> tuple[str, ...] | None:
    """Return the names of the arguments of a method in the text of a class; None if it has no such method."""
    start = f"\n    def {method}("
    place = text.find(start)
    if place < 0:
        return None
    tree = _first(f"def {method}{_parenthesised(text[place + len(start) - 1 :])}: 0")
    if not isinstance(tree, Function):
        # A parenthesis in a comment or a string ends the piece too early.
        whole = getattr(_first(text), "body", ())
        tree = next((item for item in whole if getattr(item, "name", "") == method), None)
    return _named(tree) if isinstance(tree, Function) else ()


def _parenthesised(text: str) -> str:
    """Return what is within the first parentheses, and these."""
    depth = 0
    for match in re.finditer(r"[()]", text):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return text[: match.end()]
    return ""


def _named(node: Any) -> tuple[str, ...]:
    """Return the arguments of a method but for the first; `**` stands for any name."""
    arguments = node.args
    names = [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return (*names[1:], *(["**"] if arguments.kwarg else []))


@lru_cache(maxsize=None)
def _first(text: str) -> ast.AST | None:
    tree = parsed(text)
    return tree.body[0] if tree and tree.body else None
