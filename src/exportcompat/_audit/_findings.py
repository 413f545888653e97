"""What is known of pinned versions: breakages with the patch that mends them, and packages that do not go together."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from packaging.version import Version

from exportcompat._dataset import BROKEN, OUTCOMES, WORKS, Cell, Dataset, admits, find_cells
from exportcompat.patches import default_registry
from exportcompat.registry import Environment, mismatches

MISMATCH = "mismatch"
_ORDER = (MISMATCH, *OUTCOMES)
"""What is told first."""


@dataclass(frozen=True)
class Finding:
    """Something that is known to go wrong.

    Attributes:
        outcome: `wrong` (a file that is not right), `fails` (no graph), or `mismatch` (packages do not go together).
        id: the id of the advisory, or `model/case`; empty for a mismatch.
        summary: what goes wrong.
        patches: ids of the specs that mend it; for a model those that were called and are known to be needed by some
            model on these versions.
        is_mended: the patches are at hand, and it was seen that they help.
        reproduction: a command in a checkout of exportcompat that shows it; empty if there is none.
    """

    outcome: str
    id: str
    summary: str
    patches: tuple[str, ...] = ()
    is_mended: bool = False
    reproduction: str = ""


@dataclass(frozen=True)
class Audit:
    """What is known of one set of versions.

    Attributes:
        versions: the versions by package.
        findings: the worst first.
        notes: what is not known.
    """

    versions: Mapping[str, str]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def unmended(self) -> list[Finding]:
        """What nothing at hand mends."""
        return [item for item in self.findings if not item.is_mended]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as `exportcompat audit --json` prints it."""
        findings = [{**asdict(item), "patches": list(item.patches)} for item in self.findings]
        return {"versions": dict(self.versions), "findings": findings, "notes": list(self.notes)}


def audit(source: Dataset, versions: Mapping[str, str], *, model: str = "", has_patches: bool = False) -> Audit:
    """Say what is known to go wrong.

    Args:
        source: the data.
        versions: versions by package; what is not named is not judged.
        model: a model type; its own results are told, not all that may concern some model.
        has_patches: exportcompat is at hand.

    Raises:
        ExportCompatError: there are no results of the model.
        SpecError: a version is malformed.
    """
    released = {name: _release(name, text) for name, text in versions.items()}
    found, notes = list(_mismatches(versions)), [*_old(source), *_newer(source, released)]
    cell = _exact(find_cells(source, model), released) if model else None
    if cell:
        found += _of_model(source, model, cell, has_patches=has_patches)
    else:
        notes += [f"{model} was not run on these versions; this is what is known of them for any model"] * bool(model)
        found += _of_versions(source, released, has_patches=has_patches)
    return Audit(versions, tuple(sorted(found, key=lambda item: _ORDER.index(item.outcome))), tuple(notes))


def _release(package: str, text: str) -> str:
    version = Environment({package: text})[package]
    return version.base_version if version else ""


def _mismatches(versions: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the pinned packages that do not go together."""
    rules = [rule for rule in default_registry().companions if _packages(rule) <= versions.keys()]
    for text in mismatches(rules, Environment(versions)):
        yield Finding(MISMATCH, "", text)


def _packages(rule: Any) -> set[str]:
    return {rule.range.package, *(item.package for item in rule.conditions)}


def _old(source: Dataset) -> Iterator[str]:
    """Yield how many results are old, if some are."""
    count, current = source.index["results"], source.index["current"]
    if current < count:
        text = f"{count - current} of the {count} results were found with an older code of exportcompat"
        yield f"{text} than that which made the data, of {source.index['date']}"


def _newer(source: Dataset, released: Mapping[str, str]) -> Iterator[str]:
    """Yield the packages that are newer than all that was run."""
    for name, known in source.index["releases"].items():
        if name in released and Version(released[name]) > Version(known[-1]):
            yield f"{name} {released[name]} is newer than what was run, {known[-1]}: nothing is known of it"


def _exact(cells: Sequence[Cell], released: Mapping[str, str]) -> Cell | None:
    """Return the results on exactly these releases."""
    wanted = [Version(released[name]) if name in released else None for name in ("transformers", "torch")]
    return next((cell for cell in cells if list(cell.order) == wanted), None)


def _of_model(source: Dataset, model: str, cell: Cell, *, has_patches: bool) -> Iterator[Finding]:
    """Yield the results of a model that are not right without patches, or with them."""
    needed = {item["database_specific"]["patch"] for item in source.advisories if _affects(item, cell.versions)}
    for item in cell.results:
        helps = item["outcome"] in WORKS
        is_plain = helps or not has_patches
        outcome = item.get("plain", "works") if is_plain else item["outcome"]
        if outcome in BROKEN:
            text = item.get("plain_problem" if is_plain else "problem", "")
            patches = tuple(name for name in item.get("patches", ()) if helps and name in needed)
            command = f"python -m exportcompat.matrix check {item['case']}" + " --plain" * is_plain
            name = f"{source.find_type(model)}/{item['case']}"
            yield Finding(outcome, name, text, patches, has_patches and helps, command)


def _of_versions(source: Dataset, released: Mapping[str, str], *, has_patches: bool) -> Iterator[Finding]:
    """Yield the known breakages of some versions."""
    for item in source.advisories:
        if _affects(item, released):
            more = item["database_specific"]
            patches = tuple(filter(None, [more["patch"]]))
            is_mended = has_patches and bool(patches)
            command = more["reproduction"][0]["command"]
            yield Finding(more["outcome"], item["id"], item["summary"], patches, is_mended, command)


def _affects(advisory: Mapping[str, Any], released: Mapping[str, str]) -> bool:
    """Say whether an advisory is about some versions; OSV's own ranges are of one package at a time."""
    return any(
        item["package"]["name"] in released
        and admits(item["database_specific"]["requires"], released)
        and all(_within(span["events"], Version(released[item["package"]["name"]])) for span in item["ranges"])
        for item in advisory["affected"]
    )


def _within(events: Collection[Mapping[str, str]], version: Version) -> bool:
    """Say whether a version is in a range of OSV: from where it was introduced to where it was fixed or last seen."""
    bounds = {name: Version(text) for event in events for name, text in event.items()}
    is_fixed = "fixed" in bounds and version >= bounds["fixed"]
    return not is_fixed and bounds["introduced"] <= version <= bounds.get("last_affected", version)
