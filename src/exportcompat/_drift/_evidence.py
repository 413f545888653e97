"""What a plan rests on: releases on which a spec was proved, the same source as there, or nothing."""

from collections.abc import Callable
from functools import lru_cache

from packaging.version import Version

from exportcompat.registry import (
    Environment,
    ExportCompatError,
    Fingerprints,
    PatchingSpec,
    Registry,
    Target,
    installed_version,
)

UNKNOWN = "unknown"


def proved_on(spec: PatchingSpec, sources: Fingerprints | None) -> list[str]:
    """Return the releases on which every target of a spec was proved, oldest first.

    The releases are those of the package that the targets are in. A target that is found anew in each process, by a
    word in its source, has no place in the lock file and does not count.
    """
    if sources is None:
        return []
    found = [_releases(target, sources) for target in _sourced(spec)]
    return sorted(set.intersection(*found), key=Version) if found else []


def describe(spec: PatchingSpec, sources: Fingerprints | None, environment: Environment) -> str:
    """Say in a few words what is known of a spec on the release that is installed or asked for.

    Returns:
        `yes` (proved there), `same source as 5.20.2` (as one where it was proved), `other source than 5.20.2` (where a
        target has one that was not proved), `on 5.4.0 and 5.12.1` (no source to go by: the nearest proofs), `unknown`
        (no release that anybody has looked at: `exportcompat drift` does), or `no` (never proved).
    """
    releases, package = proved_on(spec, sources), spec.places[0].package
    version = environment[package]
    if version is None or not releases or sources is None:
        return "no"
    if version.base_version in releases:
        return "yes"
    found = [_source(target, sources, version, package) for target in _sourced(spec)]
    near = _nearest(releases, version)
    if UNKNOWN in found:
        return UNKNOWN
    if all(name in sources.releases(target.text) for name, target in zip(found, _sourced(spec), strict=True)):
        return f"same source as {near[0]}"
    return f"other source than {near[0]}" if all(found) else f"on {' and '.join(near)}"


def newest_surveyed(registry: Registry, package: str) -> str:
    """Return the newest release of a package that the lock file has sources of; empty if it has none."""
    known = {
        (spec.fingerprints, target.text)
        for spec in registry
        for target in spec.places
        if spec.fingerprints and target.package == package
    }
    spans = [span for lock, text in known for found in lock.seen(text).values() for span in found]
    return max((span.rpartition("-")[2] for span in spans), key=Version, default="")


def _sourced(spec: PatchingSpec) -> list[Target]:
    return [target for target in spec.places if not target.is_mention]


def _nearest(releases: list[str], version: Version) -> list[str]:
    """Return the last proof before a version and the first one after it."""
    below = [text for text in releases if Version(text) < version][-1:]
    return below + [text for text in releases if Version(text) > version][:1]


def _source(target: Target, sources: Fingerprints, version: Version, package: str) -> str:
    """Return the fingerprint of a target in a release; empty if it has none there, `unknown` if nobody has looked."""
    spans = [(name, *span.split("-")) for name, found in sources.seen(target.text).items() for span in found]
    release = Version(version.base_version)
    found = next((name for name, first, last in spans if Version(first) <= release <= Version(last)), "")
    newest = max((Version(last) for _, _, last in spans), default=release)
    if found or release <= newest:
        return found
    return _installed(package)(target) if installed_version(package) == version else UNKNOWN


@lru_cache(maxsize=None)
def _installed(package: str) -> Callable[[Target], str]:
    """Return what gives the fingerprint of a target in what is installed, which is not imported."""
    # Most plans are for releases that the lock file knows.
    from ._definitions import Package
    from ._sources import INSTALLED, sources_of
    from ._survey import Surveyor

    try:
        surveyor = Surveyor(Package(sources_of(INSTALLED, package)))
    except ExportCompatError:
        return lambda _: UNKNOWN

    def fingerprint(target: Target) -> str:
        found = surveyor.definition(target)
        return found.fingerprint if found else ""

    return fingerprint


def _releases(target: Target, sources: Fingerprints) -> set[str]:
    return {release for releases in sources.releases(target.text).values() for release in releases}
