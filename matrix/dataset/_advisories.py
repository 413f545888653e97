"""Known breakages as advisories in the OSV format: what was seen to fail or to be wrong, and how to see it again.

A range is claimed only where a run stands for it: without the spec the case was wrong or had no graph, and with it the
case worked. Where a range has no end, the claim ends with the newest release that was run.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from packaging.version import Version

from exportcompat.registry import PatchingSpec, Range, Registry

from ._proof_runs import BROKEN, Record, is_for
from ._spec_data import admitted

PREFIX = "EXPORTCOMPAT-"
_OSV = "1.6.0"
_SHOWN = 3
"""Runs that an advisory names for each range."""


def advisories(registry: Registry, runs: Mapping[str, list[Record]]) -> list[Record]:
    """Return an advisory for each id of a spec that was seen to be needed; those of wrong results come first.

    Args:
        registry: the specs.
        runs: see `runs_without`.
    """
    found = [_advisory(spec_id, registry.variants(spec_id), runs.get(spec_id, [])) for spec_id in registry.ids()]
    made = [item for item in found if item]
    return sorted(made, key=lambda item: (BROKEN.index(item["database_specific"]["outcome"]), item["id"]))


def _advisory(spec_id: str, variants: Sequence[PatchingSpec], runs: Sequence[Record]) -> Record | None:
    """Return the advisory of one spec; None if nothing was run that shows its defect."""
    shown = [(spec, [run for run in runs if is_for(spec, run)]) for spec in variants]
    shown = [(spec, found) for spec, found in shown if found]
    if not shown:
        return None
    evidence = [run for _, found in shown for run in _telling(found)]
    reasons = list(dict.fromkeys(spec.reason for spec, _ in shown))
    return {
        "schema_version": _OSV,
        "id": f"{PREFIX}{spec_id}",
        "modified": f"{max(run['date'] for run in evidence)}T00:00:00Z",
        "summary": reasons[0],
        "details": "\n\n".join([*reasons, f"The patch `{spec_id}` of exportcompat mends it."]),
        "affected": [_affected(spec, found) for spec, found in shown],
        "references": list(_references(spec for spec, _ in shown)),
        "database_specific": {
            "license": "CC0-1.0",
            "outcome": min((run["outcome"] for run in evidence), key=BROKEN.index),
            "patch": spec_id,
            "evidence": evidence,
            "reproduction": [_reproduction(spec_id, run) for run in evidence],
        },
    }


def _telling(runs: Sequence[Record]) -> list[Record]:
    """Return the runs that an advisory names: those with wrong numbers first, the newest of each."""
    return sorted(runs, key=lambda run: BROKEN.index(run["outcome"]))[:_SHOWN]


def _affected(spec: PatchingSpec, runs: Sequence[Record]) -> Record:
    """Return the releases that a variant of a spec is for, of the package that it writes to."""
    package = spec.places[0].package
    bounds = {part.operator: part.version for item in _of(spec, package) for part in item.specifiers}
    newest = max((run[package] for run in runs if package in run), key=Version, default="")
    events = [{"introduced": bounds.get(">=", "0")}]
    events += [{"fixed": bounds["<"]}] if "<" in bounds else [{"last_affected": newest}] if newest else []
    listed = [text for text in admitted(spec, package) if "<" in bounds or Version(text) <= Version(newest)]
    return {
        "package": {"ecosystem": "PyPI", "name": package},
        "ranges": [{"type": "ECOSYSTEM", "events": events}],
        "versions": listed,
        # OSV has no way to say that two packages come together.
        "database_specific": {"requires": list(spec.requires)},
    }


def _of(spec: PatchingSpec, package: str) -> Iterator[Range]:
    yield from (item for item in spec.ranges if item.package == package)


def _references(specs: Iterator[PatchingSpec]) -> Iterator[Record]:
    for link in dict.fromkeys(link for spec in specs for link in spec.upstream):
        kind = "REPORT" if "/issues/" in link else "FIX" if "/pull/" in link or "/commit/" in link else "WEB"
        yield {"type": kind, "url": link}


def _reproduction(spec_id: str, run: Mapping[str, Any]) -> Record:
    """Return how a run is seen again, in a checkout of exportcompat."""
    return {
        "install": f"pip install transformers=={run['transformers']} torch=={run['torch']} -e '.[all]'",
        "command": f"python -m exportcompat.matrix check {run['case']} --exclude {spec_id}",
        "outcome": run["outcome"],
    }
