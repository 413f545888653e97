"""Results that are carried: on a release where the captured programs and eager's answers are those of another one."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from packaging.version import Version

from exportcompat.matrix.cases import Case
from exportcompat.matrix.checks import DIGESTS

from ._outcomes import CHECKED
from ._result_key import code_of, own_digest
from ._results import Installed, Results, Row

_UPSTREAM = re.compile(r"(\w+\()?transformers\.")
"""What is put in place there shows in a captured program; what is put elsewhere may work after the capture."""
_SHARED = ("state", "problems", "sample", "difference", "calls")
"""What a carried result has from the one that it is carried from."""


@dataclass(frozen=True)
class Neighbour:
    """A result that was run, on another transformers beside the same other packages.

    Attributes:
        transformers: the release.
        row: the result.
        code: what it rests on of our code that may work after a capture.
    """

    transformers: str
    row: Row
    code: Mapping[str, str]


class Neighbours:
    """The results beside those of a cell: of the same torch, and of the same season where it is of one.

    Args:
        path: the result file of the cell.
        installed: what is installed for it.
    """

    def __init__(self, path: Path, installed: Installed) -> None:
        own = installed.versions["transformers"]
        pattern = path.name.replace(f"transformers-{own}_", "transformers-*_", 1)
        self._files = [Results(item) for item in sorted(path.parent.glob(pattern)) if item != path]
        self.versions = installed.versions
        """What is installed."""

    def of(self, case: Case) -> list[Neighbour]:
        """Return the results from which one of this case may be carried, the nearest release first.

        A carried one is none: what is handed on from release to release would rest on nothing that was run.
        """
        found = list(self._of(case))
        wanted = Version(self.versions["transformers"])
        return sorted(found, key=lambda item: _distance(Version(item.transformers), wanted))

    def _of(self, case: Case) -> Iterator[Neighbour]:
        others = _others(self.versions)
        for results in self._files:
            row = results.rows.get(case.name, {})
            if not _can_be_carried(row):
                continue
            versions = results.versions(case.name)
            if _others(versions) == others and results.is_current(case):
                yield Neighbour(versions["transformers"], row, _code_beyond(case, versions, row))


@lru_cache(maxsize=1)
def content_code() -> str:
    """Return the digest of the code that makes the digests of a content."""
    return own_digest(DIGESTS)[:16]


def with_code(row: Mapping[str, Any]) -> Row:
    """Return a row, or what was captured, whose content names the code that made its digests."""
    content = {"content": {**row["content"], "code": content_code()}} if "content" in row else {}
    return {**row, **content}


def carried(case: Case, found: Mapping[str, Any], neighbour: Neighbour, versions: Mapping[str, str]) -> Row | None:
    """Return the result of a neighbour as that of a case for which nothing but captures was run; None if it is not.

    Args:
        case: the case.
        found: what `checks.captured` has found here.
        neighbour: the other result.
        versions: what is installed here.
    """
    old = neighbour.row
    if found.get("content") != old["content"] or not _agrees(found, old):
        return None
    beyond = {name.partition(" ")[0] for name in neighbour.code}
    used = [name for name in found["applied"] if name in found["used"] or (name in old["used"] and name in beyond)]
    row = {
        **{name: old[name] for name in _SHARED if name in old},
        "plain": {name: old["plain"][name] for name in ("state", "problem")},
        **{name: found[name] for name in ("content", "applied", "modules", "caches", "total_seconds", "megabytes")},
        "used": used,
        "carried": neighbour.transformers,
    }
    return row if _code_beyond(case, versions, row) == neighbour.code else None


def _agrees(found: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Say whether what was found up to the captures is what a result says of both of its exports."""
    old = row["plain"]
    plain = _is_same(found["plain"], old["state"], [old["problem"]])
    return plain and _is_same(found["patched"], row["state"], row["problems"][-1:])


def _is_same(found: Mapping[str, Any], state: str, problems: list[str]) -> bool:
    """Say whether an export that captured something was right so far, or one that captured nothing failed alike."""
    if found["state"] == "fails":
        return state == "fails" and found["problems"][:1] == problems
    return bool(found["state"] == "works")


def _can_be_carried(row: Mapping[str, Any]) -> bool:
    is_run = row.get("state") in CHECKED and "carried" not in row
    return is_run and row.get("content", {}).get("code") == content_code()


def _others(versions: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in versions.items() if name != "transformers"}


def _code_beyond(case: Case, versions: Mapping[str, str], row: Row) -> dict[str, str]:
    """Return what a result rests on of our code, without specs whose every place is in transformers."""
    found = code_of(case, versions, row)
    return {name: text for name, text in found.items() if not _is_upstream(name.split()[2:])}


def _is_upstream(targets: list[str]) -> bool:
    return bool(targets) and all(_UPSTREAM.match(target) for target in targets)


def _distance(found: Version, wanted: Version) -> int:
    """Return how far apart two releases are, roughly: a major counts for a hundred minors."""
    first, second = (10_000 * item.major + 100 * item.minor + item.micro for item in (found, wanted))
    return abs(first - second)
