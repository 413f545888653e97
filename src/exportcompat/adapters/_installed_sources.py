"""What foreign patches were written for: nobody has noted it, so it is what is installed beside them."""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from exportcompat._drift import INSTALLED, NAMES, Package, Surveyor, sources_of
from exportcompat.registry import (
    BUILTIN,
    ExportCompatError,
    Fingerprints,
    PatchingSpec,
    fingerprint,
    installed_version,
    parse_target,
)


class InstalledSources(Fingerprints):
    """The sources of targets as they are installed, in place of a lock file.

    `exportcompat drift` then says what another release has changed. A project that keeps its patches for longer writes
    the sources down once (`write_sources`), and gives `Fingerprints(path)` to its registry.
    """

    def __init__(self) -> None:
        super().__init__(Path())
        self._found: dict[str, Mapping[str, list[str]]] = {}

    def releases(self, target: str) -> Mapping[str, list[str]]:
        """Return the installed release by the fingerprint that the target has in it; empty if it is not there.

        The names that exportcompat's own code goes by are those of its lock file, and no foreign patch's.
        """
        if target == NAMES:
            return {}
        if target not in self._found:
            self._found[target] = _installed(target)
        return self._found[target]

    def _load(self) -> Mapping[str, Any]:
        return {}

    def __reduce__(self) -> Any:
        return InstalledSources, ()


def write_sources(specs: Iterable[PatchingSpec], path: Path) -> None:
    """Write the installed sources of all targets to a file that `Fingerprints` reads.

    What the file has of other releases stays.

    Args:
        specs: those that were seen to work with what is installed.
        path: a JSON file; it is made if it is not there.

    Raises:
        ExportCompatError: the file has something else.
    """
    sources = InstalledSources()
    known = _known(path)
    for target in dict.fromkeys(text for spec in specs for text in spec.targets):
        for found, releases in sources.releases(target).items():
            row = known.setdefault(target, {}).setdefault(found, [])
            row += [release for release in releases if release not in row]
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")


def _known(path: Path) -> dict[str, dict[str, list[str]]]:
    try:
        found = json.loads(path.read_text("utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise ExportCompatError(f"{path} cannot be read: {error}; name another file") from error
    if not isinstance(found, dict) or not all(isinstance(row, dict) for row in found.values()):
        raise ExportCompatError(f"{path} maps no targets to fingerprints; name another file")
    return found


def _installed(text: str) -> Mapping[str, list[str]]:
    target = parse_target(text, text)
    version = installed_version(target.package)
    if version is None or target.is_mention:
        return {}
    if target.is_loaded():
        try:
            return {fingerprint(target.source()): [version.base_version]}
        except ExportCompatError:
            return {}
    # What is not loaded is read and not imported, as another release is.
    found = _surveyor(target.package).definition(target)
    target_fingerprint = found.fingerprint if found else BUILTIN if _is_binary(target.package) else ""
    return {target_fingerprint: [version.base_version]} if target_fingerprint else {}


@lru_cache(maxsize=None)
def _surveyor(package: str) -> Surveyor:
    return Surveyor(Package(sources_of(INSTALLED, package)))


def _is_binary(package: str) -> bool:
    """Say whether a package has names that no source defines."""
    return package == "torch"
