"""Does every spec still fit the sources of a release? Said without importing the release, before a user finds out."""

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from packaging.version import Version

from exportcompat.registry import BUILTIN, Fingerprints, PatchingSpec, Target

from ._definitions import Definition
from ._survey import Place, Survey

State = Literal["unchanged", "changed", "misfit", "moved", "gone", "fixed", "new", "lost", "gained"]
CALM = ("unchanged", "changed")
"""States in which a spec does what it is for."""

MEANING: Mapping[str, str] = {
    "unchanged": "the source is one that was proved",
    "changed": "another source, with the same defect; the replacement takes the same arguments",
    "misfit": "the replacement does not take the arguments any more: it is not applied",
    "moved": "it is somewhere else now: the spec is not applied",
    "gone": "there is no such thing any more: the spec is not applied",
    "fixed": "the defect is no longer in the source: the spec may not be needed, or not fit",
    "new": "code that no spec replaces has a known defect",
    "lost": "a name that our own code goes by is not there any more",
    "gained": "many models have a name that our own code does not know",
}

_MANY = 0.5
"""The share of modules with a name that must be left for a spec to be about them still."""


@dataclass(frozen=True)
class Finding:
    """What became of one target of a spec, or where its defect is besides.

    Attributes:
        spec_id: the spec; `exportcompat` for a name that our own code goes by.
        target: the target; for a new occurrence, `module:name`; or the name (see `Interface`).
        state: see `MEANING`.
        detail: what differs.
        diff: lines of a unified diff against the last source that was proved.
    """

    spec_id: str
    target: str
    state: State
    detail: str = ""
    diff: tuple[str, ...] = ()

    @property
    def is_alarm(self) -> bool:
        """Say whether somebody must look at it."""
        return self.state not in CALM


class Known(Protocol):
    """What was known before a release came out."""

    def fingerprints(self, spec: PatchingSpec, target: Target) -> Collection[str]:
        """Return the sources that the spec was proved against."""

    def modules(self, spec: PatchingSpec) -> int:
        """Return in how many modules a spec that goes by a name found it; 0 if that is not known."""

    def occurrences(self, spec_id: str) -> Collection[str] | None:
        """Return where else the defect was; None if that is not known."""


class Locked:
    """What the lock files of specs know; a spec that has none knows nothing.

    Args:
        specs: the specs.
    """

    def __init__(self, specs: Iterable[PatchingSpec]) -> None:
        self._sources: dict[str, Fingerprints | None] = {spec.id: spec.fingerprints for spec in specs}

    def fingerprints(self, spec: PatchingSpec, target: Target) -> Collection[str]:
        return spec.fingerprints.releases(target.text) if spec.fingerprints else ()

    def modules(self, spec: PatchingSpec) -> int:
        return 0

    def occurrences(self, spec_id: str) -> Collection[str] | None:
        sources = self._sources.get(spec_id)
        return sources.occurrences(spec_id) if sources else None


def for_version(specs: Iterable[PatchingSpec], package: str, version: str) -> list[PatchingSpec]:
    """Return the specs that have targets in a package and are for a version of it."""
    return [
        spec
        for spec in specs
        if any(target.package == package for target in spec.places)
        and all(item.admits(Version(version)) for item in spec.ranges if item.package == package)
    ]


def findings(
    survey: Survey, specs: Iterable[PatchingSpec], known: Known, moved: Callable[[Target], str]
) -> Iterator[Finding]:
    """Yield what became of each target of specs that are for a release, then new occurrences of their defects.

    Args:
        survey: the release.
        specs: those that are for it.
        known: what was known before.
        moved: says where a target is now that is not where it was; empty if it is nowhere.
    """
    specs = list(specs)
    for spec in specs:
        spread = [target for target in spec.places if target.is_mention]
        if spread:
            yield _about_methods(survey, spec, spread, known)
        for target in spec.places:
            place = survey.places.get((spec, target.text))
            if place is not None and not target.is_mention:
                yield _about(spec, target, place, known, moved)
    for spec_id in dict.fromkeys(spec.id for spec in specs if spec.spreads):
        names, before = survey.occurrences.get(spec_id, frozenset()), known.occurrences(spec_id)
        for name in sorted(names - set(names if before is None else before)):
            yield Finding(spec_id, name, "new", "it matches what the spec says of its defect")


def _about(spec: PatchingSpec, target: Target, place: Place, known: Known, moved: Callable[[Target], str]) -> Finding:
    proved = known.fingerprints(spec, target)
    if not place.fingerprint:
        if BUILTIN in proved:
            return Finding(spec.id, target.text, "unchanged", "it had no Python source where it was proved either")
        where = moved(target)
        return Finding(spec.id, target.text, "moved" if where else "gone", f"it is {where}" if where else "")
    if place.fingerprint in proved:
        return Finding(spec.id, target.text, "unchanged")
    if place.misfit:
        return Finding(spec.id, target.text, "misfit", place.misfit)
    if not place.has_defect:
        patterns = " and ".join(spec.defect)
        return Finding(spec.id, target.text, "fixed", f"it does not match {patterns}")
    return Finding(spec.id, target.text, "changed", "" if proved else "no source is known that it was proved against")


def _about_methods(survey: Survey, spec: PatchingSpec, targets: list[Target], known: Known) -> Finding:
    """Return what became of methods that mention names: they come and go with models, so only most of them count."""
    count = sum(survey.places[spec, target.text].modules for target in targets)
    before, text = known.modules(spec), ", ".join(target.text for target in targets)
    if count < _MANY * before or not count:
        return Finding(spec.id, text, "gone", f"{count} modules are left of {before or 'those that were'}")
    return Finding(spec.id, text, "unchanged", f"in {count} modules")


def difference(before: Definition, after: Definition, versions: tuple[str, str]) -> tuple[str, ...]:
    """Return a unified diff of two sources, without line ends."""
    old, new = (f"{item.module}:{item.name} ({text})" for item, text in zip((before, after), versions, strict=True))
    return tuple(
        difflib.unified_diff(before.source.splitlines(), after.source.splitlines(), old, new, lineterm="", n=1)
    )


def to_data(finding: Finding) -> dict[str, Any]:
    """Return plain data."""
    return {**vars(finding), "diff": list(finding.diff), "alarm": finding.is_alarm}
