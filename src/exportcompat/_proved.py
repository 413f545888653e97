"""On which releases a spec was proved, as the lock file of the sources says."""

from packaging.version import Version

from exportcompat.registry import Environment, Fingerprints, PatchingSpec, Target


def proved_on(spec: PatchingSpec, sources: Fingerprints | None) -> list[str]:
    """Return the releases on which every target of a spec was proved, oldest first.

    The releases are those of the package that the targets are in. A target that is found anew in each process, by a
    word in its source, has no place in the lock file and does not count.
    """
    if sources is None:
        return []
    found = [_releases(target, sources) for target in spec.places if not target.text.startswith("mentioning(")]
    return sorted(set.intersection(*found), key=Version) if found else []


def describe(spec: PatchingSpec, sources: Fingerprints | None, environment: Environment) -> str:
    """Say in a few words whether a spec was proved on the release that is installed or asked for."""
    releases, version = proved_on(spec, sources), environment[spec.places[0].module.partition(".")[0]]
    if version is None or not releases:
        return "no"
    if version.base_version in releases:
        return "yes"
    below = [text for text in releases if Version(text) < version][-1:]
    above = [text for text in releases if Version(text) > version][:1]
    return f"on {' and '.join(below + above)}"


def _releases(target: Target, sources: Fingerprints) -> set[str]:
    return {release for releases in sources.releases(target.text).values() for release in releases}
