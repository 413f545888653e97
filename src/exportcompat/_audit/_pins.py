"""The versions that a project pins: in a file of requirements, in a lock file, or what is installed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName
from packaging.utils import canonicalize_name

from exportcompat._extras import parse_toml
from exportcompat.registry import PACKAGES, Environment, ExportCompatError

from ._requirement_file import name_of, pinned, requirements

OURS = "exportcompat"
_NAMES = (*PACKAGES, OURS)
_JUDGED = {"torch", "transformers"}
_TABLES = ("package", "packages")
"""Where packages are listed: in uv.lock and poetry.lock, and in pylock.toml."""


@dataclass(frozen=True)
class Pins:
    """Exact versions of the packages that count.

    Attributes:
        source: the file, or `installed`.
        versions: versions by package; a lock file for several platforms may have more than one of a package.
        loose: requirements by package that admit several versions.
    """

    source: str
    versions: Mapping[str, tuple[str, ...]]
    loose: Mapping[str, str]

    def __post_init__(self) -> None:
        loose = [f"{name}{text}" for name, text in self.loose.items() if name in _JUDGED]
        if loose and not self.versions.keys() & _JUDGED:
            raise ExportCompatError(
                f"{self.source} pins no version of torch or transformers ({', '.join(loose)}); give a lock file, "
                "or what `pip freeze` prints"
            )

    @property
    def has_patches(self) -> bool:
        """Say whether exportcompat is among them, in whatever version."""
        return OURS in self.versions or OURS in self.loose

    def environments(self) -> Iterator[dict[str, str]]:
        """Yield every combination of versions that may be installed together; none without torch and transformers."""
        if not self.versions.keys() & _JUDGED:
            return
        names = [name for name in PACKAGES if name in self.versions]
        for found in product(*(self.versions[name] for name in names)):
            yield dict(zip(names, found, strict=True))


def installed_pins() -> Pins:
    """Return what is installed; exportcompat is, since it runs."""
    environment = Environment()
    found = {name: (str(version),) for name in PACKAGES if (version := environment[name]) is not None}
    return Pins("installed", found, {OURS: ""})


def read_pins(path: Path) -> Pins:
    """Return what a file pins: `uv.lock`, `poetry.lock`, `pylock.toml`, or any other name for a file of requirements.

    Raises:
        ExportCompatError: it cannot be read, or names torch or transformers without an exact version of any of them.
        MissingExtraError: it is a lock file, Python is 3.10, and tomli is not installed.
    """
    if path.suffix in (".lock", ".toml"):
        return _pins(path, _locked(path))
    return _pins(path, ((name_of(item), pinned(item), str(item.specifier)) for item in requirements(path)))


def _pins(path: Path, found: Iterator[tuple[str, str, str]]) -> Pins:
    """Return what of some packages counts: each with its version, and its bounds where it has none."""
    versions: dict[str, tuple[str, ...]] = {}
    loose: dict[str, str] = {}
    for name, version, bounds in found:
        if name in _NAMES and version:
            versions[name] = tuple(dict.fromkeys([*versions.get(name, ()), version]))
        elif name in _NAMES:
            loose[name] = bounds
    return Pins(str(path), versions, {name: text for name, text in loose.items() if name not in versions})


def _locked(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the packages of a lock file."""
    try:
        content = parse_toml(path.read_text("utf-8"), "data")
        listed: list[dict[str, Any]] = next(content[name] for name in _TABLES if isinstance(content.get(name), list))
    except (OSError, ValueError) as error:
        raise ExportCompatError(f"{path} cannot be read ({error}); lock the project again") from None
    except StopIteration:
        raise ExportCompatError(
            f"{path} lists no packages; give uv.lock, poetry.lock, pylock.toml or a file of requirements"
        ) from None
    for item in listed:
        if _counts(item.get("marker")):
            yield str(canonicalize_name(str(item.get("name", "")))), str(item.get("version", "")), ""


def _counts(marker: object) -> bool:
    """Say whether a package is for this platform; what depends on a choice of the user may be installed."""
    if not isinstance(marker, str):
        return True
    try:
        return Marker(marker).evaluate()
    except (InvalidMarker, UndefinedEnvironmentName):
        return True
