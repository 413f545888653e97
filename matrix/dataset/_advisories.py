"""Known breakages as advisories in the OSV format: what was seen to fail or to be wrong, and how to see it again.

A range is claimed only where a run stands for it: without the spec the case was wrong or had no graph, and with it the
case worked. Where a range has no end, the claim ends with the newest release that was run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """Return an advisory for each id of a spec that was seen to be needed.

    Args:
        registry: the specs.
        runs: see `runs_without`.
    """
    found = [_advisory(spec_id, registry.variants(spec_id), runs.get(spec_id, [])) for spec_id in registry.ids()]
    return [item for item in found if item]


def worst_first(found: Iterable[Record]) -> list[Record]:
    """Return advisories in order: those of wrong results first, then by id."""
    return sorted(found, key=lambda item: (BROKEN.index(item["database_specific"]["outcome"]), item["id"]))


def _advisory(spec_id: str, variants: Sequence[PatchingSpec], runs: Sequence[Record]) -> Record | None:
    """Return the advisory of one spec; None if nothing was run that shows its defect."""
    shown = [(spec, [run for run in runs if is_for(spec, run)]) for spec in variants]
    shown = [(spec, found) for spec, found in shown if found]
    if not shown:
        return None
    evidence = [run for _, found in shown for run in _telling(found)]
    reasons = list(dict.fromkeys(spec.reason for spec, _ in shown))
    return made_of(
        f"{PREFIX}{spec_id}",
        [*reasons, f"The patch `{spec_id}` of exportcompat mends it."],
        [_affected(spec, found) for spec, found in shown],
        evidence,
        [f"python -m exportcompat.matrix check {run['case']} --exclude {spec_id}" for run in evidence],
        patch=spec_id,
        references=list(_references(spec for spec, _ in shown)),
    )


def made_of(
    name: str,
    texts: Sequence[str],
    affected: Sequence[Record],
    runs: Sequence[Record],
    commands: Sequence[str],
    *,
    patch: str = "",
    references: Sequence[Record] = (),
) -> Record:
    """Return an advisory.

    Args:
        name: its id.
        texts: what goes wrong, the most important first.
        affected: the packages and their ranges.
        runs: what was run and was not right.
        commands: for each run, what shows it.
        patch: the id of the spec that mends it.
        references: links.
    """
    return {
        "schema_version": _OSV,
        "id": name,
        "modified": f"{max(run['date'] for run in runs)}T00:00:00Z",
        "summary": texts[0],
        "details": "\n\n".join(texts),
        "affected": list(affected),
        "references": list(references),
        "database_specific": {
            "license": "CC0-1.0",
            "outcome": min((run["outcome"] for run in runs), key=BROKEN.index),
            "patch": patch,
            "evidence": list(runs),
            "reproduction": [_reproduction(*item) for item in zip(runs, commands, strict=True)],
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


def _reproduction(run: Mapping[str, Any], command: str) -> Record:
    """Return how a run is seen again, in a checkout of exportcompat."""
    install = f"pip install transformers=={run['transformers']} torch=={run['torch']} -e '.[all]'"
    return {"install": install, "command": command, "outcome": run["outcome"]}
