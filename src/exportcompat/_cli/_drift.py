"""The command `exportcompat drift`."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from exportcompat._drift import (
    INSTALLED,
    MEANING,
    PACKAGE,
    Definition,
    Finding,
    Locked,
    Package,
    Surveyor,
    difference,
    findings,
    for_version,
    interface_of,
    name_findings_of,
    sources_of,
    to_data,
)
from exportcompat._errors import AlarmError
from exportcompat.registry import PACKAGES, ExportCompatError, PatchingSpec, Registry, Target, text_table

_SHOWN = 60
"""Lines of a diff that are printed."""


class ReleaseInspector:
    """Looks at one release of a package.

    Args:
        package: the package's name.
        text: what to look at; see `sources_of`.
        registry: the specs.
        options: the parsed arguments.
    """

    def __init__(self, package: str, text: str, registry: Registry, options: argparse.Namespace) -> None:
        self.package = package
        self._options = options
        self._registry = registry
        self._bases: dict[str, Package | str] = {}
        self._surveyor = Surveyor(Package(self._sources(text)))
        self.version = self._surveyor.package.sources.version

    def findings(self) -> list[Finding]:
        """Return what became of every target, with diffs unless they are not wanted."""
        specs = for_version(self._registry, self.package, self.version)
        survey = self._surveyor.survey(specs)
        targets = {(spec.id, target.text): (spec, target) for spec in specs for target in spec.places}
        # Variants of a spec for other releases of another package may have the same targets.
        found = list(dict.fromkeys([*findings(survey, specs, Locked(specs), self._surveyor.moved), *self._names()]))
        if self._options.no_diff:
            return found
        return [self._with_diff(item, *targets.get((item.spec_id, item.target), ())) for item in found]

    def _names(self) -> Iterator[Finding]:
        if self.package == PACKAGE:
            yield from name_findings_of(self._registry, interface_of(self._surveyor.package.sources))

    def _sources(self, text: str) -> Any:
        return sources_of(text, self.package, index=self._options.index, cache=self._options.cache)

    def _with_diff(self, finding: Finding, spec: PatchingSpec | None = None, target: Target | None = None) -> Finding:
        """Return a finding with a diff against the last source that was proved, or with why there is none."""
        if finding.state == "unchanged" or spec is None or target is None:
            return finding
        after, release = self._surveyor.definition(target), self._last_proved(spec, target)
        if after is None or not release:
            return finding
        before = self._definition(release, target)
        if isinstance(before, str):
            return replace(finding, detail="; ".join(filter(None, [finding.detail, f"no diff: {before}"])))
        return replace(finding, diff=difference(before, after, (release, self.version)))

    def _last_proved(self, spec: PatchingSpec, target: Target) -> str:
        """Return the newest release before this one on which a target was proved, or else the oldest after it."""
        known = spec.fingerprints.releases(target.text) if spec.fingerprints else {}
        proved = {text for releases in known.values() for text in releases}
        own = Version(self.version)
        before = [text for text in proved if Version(text) < own]
        return max(before, key=Version) if before else min(proved, key=Version, default="")

    def _definition(self, release: str, target: Target) -> Definition | str:
        """Return what a target was in a release; if that cannot be had, why."""
        given = self._options.against
        if release not in self._bases:
            try:
                self._bases[release] = Package(self._sources(given or release))
            except ExportCompatError as error:
                self._bases[release] = str(error)
        base = self._bases[release]
        if isinstance(base, str):
            return base
        return Surveyor(base).definition(target) or f"{base.sources.origin} does not have it"


def drift(options: argparse.Namespace, registry: Registry) -> Iterator[str]:
    """Yield the findings as text.

    Raises:
        AlarmError: at the end, if something does not fit any more.
        ExportCompatError: nothing was asked for, or it cannot be read.
    """
    alarms = 0
    for looker in release_inspectors(options, registry):
        found = looker.findings()
        alarms += sum(item.is_alarm for item in found)
        yield from _lines(looker, found, everything=options.all)
    check_alarms(alarms)


def check_alarms(count: int) -> None:
    """Raise an error if there are findings that somebody must look at.

    Raises:
        AlarmError: there are.
    """
    if count:
        raise AlarmError(f"{count} findings need a look; docs/new_release.md says what to do")


def drift_data(options: argparse.Namespace, registry: Registry) -> dict[str, Any]:
    """Return the findings as plain data.

    Raises:
        ExportCompatError: see `drift`.
    """
    found = [(looker, looker.findings()) for looker in release_inspectors(options, registry)]
    rows = [
        {"package": looker.package, "version": looker.version, **to_data(item)} for looker, f in found for item in f
    ]
    return {"findings": rows, "alarms": sum(row["alarm"] for row in rows)}


def release_inspectors(options: argparse.Namespace, registry: Registry) -> Iterator[ReleaseInspector]:
    """Yield what looks at each release that was asked for.

    Raises:
        ExportCompatError: none was, or it cannot be read.
    """
    given = {**{name: getattr(options, name.replace("-", "_")) for name in PACKAGES}, **_others(options.package)}
    asked = dict.fromkeys(_concerned(registry), INSTALLED) if options.installed else given
    if not any(asked.values()):
        options_of = ", ".join(f"--{name} SOURCE" for name in PACKAGES)
        raise ExportCompatError(f"say what to look at: {options_of}, --package NAME=SOURCE or --installed")
    if options.against and sum(bool(text) for text in asked.values()) > 1:
        raise ExportCompatError("--against is for one package; give --transformers or --torch, not both")
    for package, text in asked.items():
        if text:
            yield ReleaseInspector(package, text, registry, options)


def _concerned(registry: Registry) -> list[str]:
    """Return the packages that specs write to."""
    found = {target.package for spec in registry for target in spec.places}
    return [*(name for name in PACKAGES if name in found), *sorted(found.difference(PACKAGES))]


def _others(given: list[str]) -> dict[str, str]:
    """Return what `--package` says, by package."""
    pairs = [text.partition("=") for text in given]
    wrong = [name for name, _, source in pairs if not name or not source]
    if wrong:
        raise ExportCompatError(f"--package {wrong[0]}: write NAME=SOURCE, such as diffusers=newest")
    return {str(canonicalize_name(name)): source for name, _, source in pairs}


def _lines(looker: ReleaseInspector, found: list[Finding], *, everything: bool) -> Iterator[str]:
    yield f"{looker.package} {looker.version}: {_summary(found)}"
    shown = [item for item in found if everything or item.state != "unchanged"]
    if shown:
        yield ""
        yield from text_table(
            [("SPEC", "STATE", "TARGET"), *((item.spec_id, item.state, item.target) for item in shown)]
        )
    for item in shown:
        if item.detail or item.diff:
            yield ""
            yield f"{item.spec_id}, {item.target}: {MEANING[item.state]}"
            yield from ([f"  {item.detail}"] if item.detail else [])
            yield from (f"  {line}" for line in item.diff[:_SHOWN])
            if len(item.diff) > _SHOWN:
                yield f"  and {len(item.diff) - _SHOWN} more lines, which --json has"


def _summary(found: list[Finding]) -> str:
    counts = {state: sum(item.state == state for item in found) for state in MEANING}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no spec is for it"
