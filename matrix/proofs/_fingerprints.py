"""The lock file of sources, from the wheels of every release: nothing is installed, and nothing is run."""

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from packaging.version import Version

from exportcompat._drift import (
    COMMON,
    NAMES,
    PACKAGE,
    PREPARATION,
    Interface,
    Package,
    Survey,
    Surveyor,
    for_version,
    history,
    interface_of,
    sources_of,
)
from exportcompat.matrix._files import write_lock
from exportcompat.matrix.versions import releases, seasons
from exportcompat.patches import default_registry
from exportcompat.registry import ExportCompatError

from ._mentions import OwnCode, own_code

PACKAGES = ("transformers", "torch")
COMPANIONS = ("onnxscript", "onnx-ir")
"""Packages whose releases are looked at where a season has them."""

_MADE = ("onnxscript.rewriter.rules.fusion._rms_normalization:fuse_rms_normalization",)
"""Targets that are the result of a call, and have no source in a file."""


@dataclass(frozen=True)
class Options:
    """Where wheels come from.

    Attributes:
        index: the URL of a simple index; None for the configured one.
        cache: where they are kept; None for the user's cache folder.
        jobs: processes at a time.
    """

    index: str | None = None
    cache: Path | None = None
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)


def refresh(lock: Path, options: Options) -> Iterator[str]:
    """Look at every release that is supported, and note in the lock file what the targets of all specs are in each.

    What was proved stays; nothing is proved by looking. The file is replaced as a whole at the end.

    Args:
        lock: the lock file.
        options: where wheels come from.

    Yields:
        A line for each release.

    Raises:
        ExportCompatError: the lock file or a release cannot be read. The lock file is as it was then.
    """
    known = _read(lock)
    seen: dict[str, Any] = {"occurrences": {}, **{key: _made(known, key) for key in ("seen", "signatures")}}
    for package in (*PACKAGES, *COMPANIONS):
        versions = releases(package) if package in PACKAGES else in_seasons(package)
        for survey in surveys(package, versions, options):
            _note(seen, survey, versions)
            added, found = _add_proved(known, survey), sum(bool(place.fingerprint) for place in survey.places.values())
            yield f"{package} {survey.version}: {found} targets" + (
                f", {added} sources added to the proved" * bool(added)
            )
    names = names_of(interfaces(PACKAGE, releases(PACKAGE), options), own_code())
    yield f"{PACKAGE}: our code goes by {len(names['relied'])} of its names"
    write_lock(lock, {**known, **seen, NAMES: names})


def _made(known: dict[str, Any], key: str) -> dict[str, Any]:
    """Return what proving has noted of targets whose sources no file of a release shows."""
    return {target: rows for target, rows in known.get(key, {}).items() if target in _MADE}


def in_seasons(package: str) -> list[str]:
    """Return the releases of a companion that a season has, oldest first."""
    return sorted({season[package] for season in seasons().values() if package in season}, key=Version)


def names_of(interfaces: Iterable[Interface], code: OwnCode) -> dict[str, Any]:
    """Return what the lock file has of the names of releases.

    Args:
        interfaces: the releases, oldest first.
        code: the words in our code.
    """
    found = list(interfaces)
    most = Counter[str]()
    for item in found:
        most |= Counter(item.counts)
    relied = {name for name in most if code.goes_by(name)}
    common = {name for name in most.keys() - relied if _is_common(name, most[name]) or _is_open(name, relied)}
    return {
        "releases": " ".join(item.version for item in found),
        "relied": {name: _history(name, found) for name in sorted(relied)},
        "common": {name: _history(name, found) for name in sorted(common)},
    }


def _history(name: str, found: Iterable[Interface]) -> str:
    return history({item.version: item.counts.get(name, 0) for item in found})


def _is_common(name: str, count: int) -> bool:
    is_of_models = count >= COMMON and name.startswith(("forward(", "output."))
    return is_of_models or name.startswith(f"GenerationMixin.{PREPARATION}(")


def _is_open(name: str, relied: Collection[str]) -> bool:
    """Say whether a name is that of a class that takes any argument, on which a constructor's arguments rest."""
    return name.endswith("(**)") and name.removesuffix("(**)") in relied


def interfaces(package: str, versions: Iterable[str], options: Options) -> Iterator[Interface]:
    """Yield the names by which each release of a package is used."""
    for version in versions:
        yield interface_of(sources_of(version, package, index=options.index, cache=options.cache))


def surveys(package: str, versions: Iterable[str], options: Options) -> Iterator[Survey]:
    """Yield what the targets of the specs that are for a release or its predecessor are in it, oldest first.

    Args:
        package: the package.
        versions: its releases, oldest first.
        options: where wheels come from.
    """
    versions = list(versions)
    pairs = list(zip([versions[0], *versions], versions, strict=False))
    look = partial(_survey, package, options)
    if options.jobs < 2:
        yield from map(look, pairs)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        # Neighbours have most modules in common, which a process reads once.
        yield from pool.map(look, pairs, chunksize=max(1, len(pairs) // (4 * options.jobs)))


def _survey(package: str, options: Options, versions: tuple[str, str]) -> Survey:
    registry = list(default_registry())
    specs = {spec: None for version in versions for spec in for_version(registry, package, version)}
    named = {spec for spec in registry if any(target.is_mention for target in spec.places)}
    # Methods that mention a name are looked for where a spec is about them: that takes long.
    wanted = [spec for spec in registry if spec in specs or spec not in named]
    sources = sources_of(versions[1], package, index=options.index, cache=options.cache)
    return Surveyor(Package(sources)).survey(wanted, specs)


def _note(seen: dict[str, Any], survey: Survey, versions: list[str]) -> None:
    for (_, target), place in survey.places.items():
        if place.fingerprint and not place.modules and target not in _MADE:
            spans = seen["seen"].setdefault(target, {}).setdefault(place.fingerprint, [])
            _extend(spans, survey.version, versions)
            seen["signatures"].setdefault(target, {})[place.fingerprint] = place.signature
    for spec_id, names in survey.occurrences.items():
        seen["occurrences"][spec_id] = sorted({*seen["occurrences"].get(spec_id, ()), *names})


def _extend(spans: list[str], version: str, versions: list[str]) -> None:
    """Add a release to spans such as `4.44.0-4.45.2`, within which no other release was looked at."""
    first, _, last = spans[-1].partition("-") if spans else ("", "", "")
    if last == version:
        return
    is_next = bool(last) and versions.index(last) + 1 == versions.index(version)
    spans[-1:] = [f"{first}-{version}"] if is_next else [*spans[-1:], f"{version}-{version}"]


def _add_proved(known: dict[str, Any], survey: Survey) -> int:
    """Add the fingerprints of what was proved on a release where a decorator hides them from a running process."""
    added = 0
    for (_, target), place in survey.places.items():
        rows = known.get(target, {})
        is_proved = any(survey.version in found for found in rows.values())
        if is_proved and place.fingerprint and survey.version not in rows.get(place.fingerprint, ()):
            rows.setdefault(place.fingerprint, []).append(survey.version)
            added += 1
    return added


def _read(lock: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(lock.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ExportCompatError(f"the lock file {lock} cannot be read: {error}; get it from the repository") from error
    return found
