"""What the targets of all specs are in one release, from its sources alone."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from exportcompat.registry import PatchingSpec, Target

from ._definitions import (
    Definition,
    Function,
    Package,
    parsed,
    units,
)
from ._signature_fit import static_signature_mismatch


@dataclass(frozen=True)
class Place:
    """What one target of a spec is in one release.

    Attributes:
        fingerprint: of its source; empty if there is no such thing.
        signature: its arguments without annotations.
        has_defect: its source matches what the spec says of its defect.
        misfit: how the replacement does not fit it; empty if it does.
        modules: for a target that stands for all methods that mention a name, how many modules have one.
    """

    fingerprint: str = ""
    signature: str = ""
    has_defect: bool = False
    misfit: str = ""
    modules: int = 0


@dataclass(frozen=True)
class Survey:
    """The targets of specs in one release of a package.

    Attributes:
        package: the package.
        version: the release.
        places: what each target is, by spec and target.
        occurrences: for each id of a spec whose defect spreads, where else its defect is: `module:name`.
    """

    package: str
    version: str
    places: Mapping[tuple[PatchingSpec, str], Place]
    occurrences: Mapping[str, frozenset[str]] = field(default_factory=dict)


class Surveyor:
    """Looks targets up in the sources of a release.

    Args:
        package: the sources.
    """

    def __init__(self, package: Package) -> None:
        self.package = package

    def survey(self, specs: Iterable[PatchingSpec], spreading: Iterable[PatchingSpec] | None = None) -> Survey:
        """Return what the targets of specs are here; targets in other packages are left out.

        Args:
            specs: what to look for.
            spreading: the specs of whose defects other occurrences are looked for; None for all of `specs`.
        """
        sources, specs = self.package.sources, list(specs)
        places = {
            (spec, target.text): self.place(spec, target)
            for spec in specs
            for target in spec.places
            if target.package == sources.package
        }
        return Survey(
            sources.package, sources.version, places, self.occurrences(specs if spreading is None else spreading)
        )

    def place(self, spec: PatchingSpec, target: Target) -> Place:
        """Return what one target is."""
        if target.is_mention:
            return self._mentions(target.name, spec.defect)
        found = self.definition(target)
        if found is None:
            return Place()
        is_method = not target.is_pytree and not target.is_spread
        problem = (static_signature_mismatch(spec, found) or "") if is_method else ""
        return Place(found.fingerprint, found.signature, self._has(spec, target, found), problem)

    def definition(self, target: Target) -> Definition | None:
        """Return the function or class whose source the fingerprint of a target is of."""
        find = self.package.initialiser if target.is_pytree else self.package.find
        return find(target.module, target.name)

    def occurrences(self, specs: Iterable[PatchingSpec]) -> dict[str, frozenset[str]]:
        """Return where code that no spec replaces matches the defect of one that spreads, by the id of the spec."""
        found: dict[str, set[str]] = {}
        places = (self.package.find(target.module, target.name) for spec in specs for target in spec.places)
        covered = {f"{item.module}:{item.name}" for item in places if item}
        for spec in specs:
            if spec.spreads and self.package.sources.package in {item.package for item in spec.places}:
                found.setdefault(spec.id, set()).update(self._matching(spec.defect))
        return {spec_id: frozenset(names - covered) for spec_id, names in found.items()}

    def moved(self, target: Target) -> str:
        """Return where a thing of the same name and source is now, or of the same name; empty if there is none."""
        first = target.name.partition(".")[0]
        header = re.compile(rf"^(?:class|def) {re.escape(first)}\b", re.MULTILINE)
        modules = (name for name, text in self.package.sources.items() if first in text and header.search(text))
        found = [f"{module}:{target.name}" for module in modules if self.package.find(module, target.name)]
        return ", ".join(found)

    def _matching(self, defect: tuple[str, ...]) -> Iterator[str]:
        for module, text in self.package.sources.items():
            # Reading the syntax costs a thousand times what this does.
            if matches(defect, text):
                yield from (f"{module}:{name}" for name in _matching(text, defect))

    def _has(self, spec: PatchingSpec, target: Target, found: Definition) -> bool:
        owner = self.package.find(target.module, target.name) if target.is_pytree else found
        if owner is None or owner.node is None:
            return not spec.defect
        return matches(spec.defect, plain_text(owner.node))

    def _mentions(self, name: str, defect: tuple[str, ...]) -> Place:
        """Return how many modules mention a name; where the spec knows its defect, in a method that has it."""
        word = re.compile(rf"\b{re.escape(name)}\b")
        texts = [text for text in self.package.sources.values() if name in text and word.search(text)]
        found = [text for text in texts if not defect or _mentions_with(text, name, defect)]
        return Place("named", has_defect=True, modules=len(found)) if found else Place()


@lru_cache(maxsize=None)
def _matching(text: str, defect: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the functions and classes in a module that match the patterns of a defect themselves."""
    tree = parsed(text)
    found = [(name, node) for name, node in (units(tree) if tree else ()) if matches(defect, plain_text(node))]
    methods = {name.rpartition(".")[0] for name, _ in found}
    # Of a class whose method matches by itself, the method is enough.
    return tuple(name for name, _ in found if name not in methods)


@lru_cache(maxsize=None)
def _mentions_with(text: str, name: str, defect: tuple[str, ...]) -> bool:
    """Say whether a method in a module mentions a name and has a defect; releases have most modules in common."""
    tree = parsed(text)
    methods = (node for unit, node in (units(tree) if tree else ()) if "." in unit and isinstance(node, Function))
    return any(_mentions(node, name) and matches(defect, plain_text(node)) for node in methods)


def matches(patterns: Iterable[str], text: str) -> bool:
    """Say whether a text has all patterns."""
    return all(re.search(pattern, text, re.MULTILINE) for pattern in patterns)


def plain_text(node: ast.AST) -> str:
    """Return the code of a function or class without comments and docstrings, as `ast.unparse` writes it."""
    parts = [item for item in ast.walk(node) if isinstance(getattr(item, "body", None), list)]
    kept = [(item, item.body) for item in parts]  # type: ignore[attr-defined]
    try:
        for item, body in kept:
            rest = [part for part in body if not _is_text(part)]
            item.body = rest or [ast.Pass()]  # type: ignore[attr-defined]
        return ast.unparse(node)
    finally:
        for item, body in kept:
            item.body = body  # type: ignore[attr-defined]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _mentions(node: ast.AST, name: str) -> bool:
    """Say whether the code of a function has a name: a variable, an attribute or a global."""
    return any(
        name in (getattr(item, "id", ""), getattr(item, "attr", ""), getattr(item, "arg", ""))
        for item in ast.walk(node)
    )
