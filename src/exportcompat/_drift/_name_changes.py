"""Names of upstream that our own code goes by, and what became of them: patches replace functions, and know no more.

The lock file has the names of every release that was looked at. `relied` are those that our code mentions; `common` are
other arguments and fields that many models have, from which a name that has come anew can be told.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from exportcompat.registry import Fingerprints, PatchingSpec

from ._findings import Finding
from ._interface import PREPARATION, Interface

PACKAGE = "transformers"
NAMES = "names"
"""Where the lock file has them, beside the targets: a word that is no target."""

OWN_CODE = "exportcompat"
"""What stands in place of the id of a spec where our own code goes by a name."""

COMMON = 10
"""Places that an argument or a field must be in to count as one that many models have."""

_SPREAD = ("forward(", "layer(", "output.")
_LOST_FROM = 20
"""A name of fewer places comes and goes with a family of models."""

_COME_TO = 40
_NEW = ("forward(", "output.", f"GenerationMixin.{PREPARATION}(")
"""Where a new name matters: models get what `generate` hands over. Arguments of layers are the models' own business."""


@dataclass(frozen=True)
class KnownNames:
    """The names of one release that was looked at.

    Attributes:
        version: the release; empty if none was looked at.
        relied: those that our code mentions, with the number of places.
        common: others that many models have.
    """

    version: str
    relied: Mapping[str, int]
    common: Mapping[str, int]


def known_names(sources: Fingerprints, version: str) -> KnownNames:
    """Return the names of a release, or of the last one before it that was looked at.

    Args:
        sources: the lock file.
        version: the release.
    """
    # They are beside the targets, by a word that is none. A method of the registry's own for it would count
    # as a change of the engine, which makes every result of the matrix old.
    names: Mapping[str, Any] = sources.releases(NAMES)
    looked_at = [text for text in names.get("releases", "").split() if Version(text) <= Version(version)]
    if not looked_at:
        return KnownNames("", {}, {})
    last = max(looked_at, key=Version)
    relied, common = (_at(names.get(kind, {}), last) for kind in ("relied", "common"))
    return KnownNames(last, relied, common)


def name_findings(before: KnownNames, after: Interface) -> Iterator[Finding]:
    """Yield the names that are lost, and those that have come anew where our code has to know every name.

    Args:
        before: a release that our code was run with.
        after: a later one.
    """
    counts = after.counts
    for name in sorted(before.relied):
        if _is_lost(name, before.relied[name], counts) and not _goes_with_owner(name, counts):
            yield Finding(OWN_CODE, name, "lost", _detail(name, before.relied[name], counts.get(name, 0)))
    known = {**before.common, **before.relied}
    for name in sorted(counts):
        if name.startswith(_NEW) and _has_come(name, known, counts):
            yield Finding(OWN_CODE, name, "gained", _detail(name, known.get(name, 0), counts[name]))


def name_findings_of(specs: Iterable[PatchingSpec], after: Interface) -> Iterator[Finding]:
    """Yield what became of the names since the newest release that the lock files of specs know."""
    for sources in {spec.fingerprints: None for spec in specs if spec.fingerprints}:
        before = known_names(sources, after.version)
        # Code that has not been run with any release goes by nothing.
        yield from name_findings(before, after) if before.version else ()


def history(counts: Mapping[str, int]) -> str:
    """Return the number of places in each release as a text that has those releases alone in which it is another."""
    changes, last = [], 0
    for version, count in counts.items():
        if count != last:
            changes.append(f"{version}:{count}")
        last = count
    return " ".join(changes)


def _at(histories: Mapping[str, str], version: str) -> dict[str, int]:
    counts = {name: _last(text, Version(version)) for name, text in histories.items()}
    return {name: count for name, count in counts.items() if count}


def _last(text: str, version: Version) -> int:
    changes: list[Any] = [item.split(":") for item in text.split()]
    return next((int(count) for release, count in reversed(changes) if Version(release) <= version), 0)


def _is_lost(name: str, before: int, counts: Mapping[str, int]) -> bool:
    after = counts.get(name, 0)
    if name.startswith(_SPREAD):
        return before >= _LOST_FROM and after < before / 2
    takes_any = name.endswith(")") and f"{name.partition('(')[0]}(**)" in counts
    return not after and not takes_any


def _goes_with_owner(name: str, counts: Mapping[str, int]) -> bool:
    """Say whether a name is gone because its class is, which has a name of its own."""
    owner = re.split(r"[.(]", name)[0]
    return not name.startswith(_SPREAD) and owner != name and owner not in counts


def _has_come(name: str, known: Mapping[str, int], counts: Mapping[str, int]) -> bool:
    if name.startswith(_SPREAD):
        return counts[name] >= _COME_TO and known.get(name, 0) < counts[name] / 4
    # What models took already is nothing new to them.
    argument = name.rpartition("(")[2]
    return name not in known and known.get(f"forward({argument}", 0) < _COME_TO and argument not in ("**)", "self)")


def _detail(name: str, before: int, after: int) -> str:
    return f"in {after} places, {before} before" if name.startswith(_SPREAD) else ""
