"""The words by which our own code may go by something upstream: read from its syntax, in place of a list."""

import ast
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from exportcompat.registry import module_of

_OURS = ("exportcompat", "exportcompat.registry", "exportcompat.matrix", "exportcompat.patches.toolkit")
"""What patches replace, `drift` follows by their targets; what they share is not bound to releases."""

_UPSTREAM = "transformers"
_NAME = re.compile(r"(\w+)(?:\.(\w+))?(?:\(([\w*]+)\))?$")
_READERS = ("getattr", "hasattr")
_ANYWHERE = ("forward", "layer", "output", "GenerationMixin")
"""What is called, or has fields, without a name of its class."""


@dataclass
class Mentions:
    """Words in one function, class or other statement at the top of a module of our own.

    Attributes:
        words: names in quotes, and those that calls pass something by.
        attributes: what is read of something that is called a cache, a past or a layer: `cache` or `layer`, and its
            name.
        classes: what is imported from upstream, and names of classes in quotes.
        own: what is given a name.
    """

    words: set[str] = field(default_factory=set)
    attributes: set[tuple[str, str]] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)

    def has(self, owner: str, argument: str) -> bool:
        """Say whether a class is named beside an argument of its constructor."""
        return owner in self.classes and argument in self.words


class OwnCode:
    """The words in our own code.

    Args:
        parts: the words in each part.
    """

    def __init__(self, parts: Iterable[Mentions]) -> None:
        self._parts = list(parts)
        self._all = Mentions(*map(self._every, ("words", "attributes", "classes", "own")))

    def goes_by(self, name: str) -> bool:
        """Say whether our code goes by a name as `Interface` has it."""
        match = _NAME.match(name)
        if match is None:
            return False
        owner, member, argument = match.groups()
        if owner in _ANYWHERE:
            return all(word in self._all.words for word in (member, argument) if word)
        # Our own classes stand in quotes as well.
        if owner not in self._all.classes - self._all.own:
            return False
        if member is not None:
            return argument is None and (_kind(owner), member) in self._all.attributes
        return argument is None or any(part.has(owner, argument) for part in self._parts)

    def _every(self, kind: str) -> set[Any]:
        return set[Any]().union(*(getattr(part, kind) for part in self._parts))


def own_code() -> OwnCode:
    """Return the words in the code that is running."""
    return OwnCode(part for file in _files() for part in mentions_in(file.read_text("utf-8")))


def mentions_in(text: str) -> Iterator[Mentions]:
    """Yield the words in each part of a module."""
    # Where upstream is not mentioned, a name in quotes is none of its classes, but an operator of ONNX, say.
    is_about_upstream = re.search(rf"\b{_UPSTREAM}\b", text) is not None
    for statement in ast.parse(text).body:
        found = Mentions()
        for node in ast.walk(statement):
            _note(found, node)
        yield found if is_about_upstream else replace(found, classes=set())


def _files() -> Iterator[Path]:
    for package in _OURS:
        spec = find_spec(package)
        for root in spec.submodule_search_locations or () if spec else ():
            # In a checkout that is installed for editing, folders are links.
            for folder, _, names in os.walk(root, followlinks=True):
                found = (Path(folder, name) for name in names if name.endswith(".py"))
                yield from (file for file in found if not _is_patch(file, Path(root), package))


def _is_patch(file: Path, folder: Path, package: str) -> bool:
    # In a wheel the patches lie within the package.
    return package == _OURS[0] and file.relative_to(folder).parts[0] == "patches"


def _note(found: Mentions, node: ast.AST) -> None:
    match node:
        case ast.Constant(value=str(text)) if text.isidentifier():
            found.words.add(text)
            if text[0].isupper() and not text.isupper():
                found.classes.add(text)
        case ast.keyword(arg=str(name)):
            found.words.add(name)
        case ast.ImportFrom(module=str(module), names=aliases) if module.partition(".")[0] == module_of(_UPSTREAM):
            found.classes.update(alias.name for alias in aliases)
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
            found.own.add(name)
        case ast.Attribute(value=owner, attr=name, ctx=ast.Load()) if _kind(_word(owner)):
            found.attributes.add((_kind(_word(owner)), name))
        case ast.Call(func=ast.Name(id=reader), args=[owner, ast.Constant(value=str(name)), *_]) if reader in _READERS:
            found.attributes.update({(_kind(_word(owner)), name)} if _kind(_word(owner)) else ())


def _word(node: ast.AST) -> str:
    """Return the last word of what has an attribute."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _kind(word: str) -> str:
    lower = word.lower()
    return "layer" if lower.endswith("layer") else "cache" if lower.endswith(("cache", "past")) else ""
