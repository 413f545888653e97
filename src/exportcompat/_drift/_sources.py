"""Where the sources of a release come from: what is installed, a file, a folder, or a package index."""

import importlib.util
import io
import os
from pathlib import Path

from packaging.utils import parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from exportcompat.registry import ExportCompatError, installed_version, module_of

from ._archive import Sources, read_sources, read_wheel
from ._package_index import (
    File,
    configured_index,
    fetched_file,
    offered,
    ranges_of,
    size_of,
)

INSTALLED = "installed"
NEWEST = "newest"
_SMALL = 64 << 20
"""What is fetched as a whole. Of a larger wheel (torch has up to 2 GB) only the parts that are read are fetched."""


def sources_of(text: str, package: str, *, index: str | None = None, cache: Path | None = None) -> Sources:
    """Return the sources of a package.

    Args:
        text: `installed`, `newest` (the newest release), a version, or the path of a wheel, an sdist or a folder.
        package: the package's name.
        index: the URL of a simple index; None for the one that uv or pip is configured with, or PyPI.
        cache: where fetched files are kept; None for `exportcompat` in the user's cache folder.

    Raises:
        ExportCompatError: there is no such thing, it cannot be read, or it is not of this package.
    """
    if text == INSTALLED:
        return _installed(package)
    path = Path(text)
    if path.exists() or path.suffix in (".whl", ".gz") or len(path.parts) > 1:
        return read_sources(path, package)
    try:
        version = None if text == NEWEST else Version(text)
    except InvalidVersion:
        raise ExportCompatError(
            f"{text!r} is no version of {package}, no file and no folder; write a version such as 5.23.0, or a path"
        ) from None
    return _released(package, version, index or configured_index(), cache or cache_folder())


def cache_folder() -> Path:
    """Return the folder for fetched files."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "exportcompat"


def _installed(package: str) -> Sources:
    # This finds a package without importing it.
    name = module_of(package)
    # A missing parent, such as that of google.protobuf, is an error of its own.
    spec = importlib.util.find_spec(name) if importlib.util.find_spec(name.partition(".")[0]) else None
    if spec is None or not spec.submodule_search_locations:
        raise ExportCompatError(f"{package} is not installed; give a version or a path instead of {INSTALLED!r}")
    version = installed_version(package)
    return read_sources(Path(next(iter(spec.submodule_search_locations))), package, str(version or ""))


def _released(package: str, version: Version | None, index: str, cache: Path) -> Sources:
    files = [(found, file) for file in offered(index, package) if (found := _version_of(file))]
    finals = [found for found, file in files if not found.is_prerelease and not file.is_yanked]
    wanted = version or max(finals, default=None)
    builds = [file for found, file in files if wanted is not None and found.public == wanted.public]
    if not builds:
        raise ExportCompatError(f"the index has no {package} {wanted or ''}; give another version, a file or a folder")
    # A wheel has an index of its own, and builds for several systems have the same modules.
    file = min(builds, key=lambda item: (not item.name.endswith(".whl"), "win" in item.name, item.name))
    if file.name.endswith(".whl") and size_of(file) > _SMALL:
        return read_wheel(io.BufferedReader(ranges_of(file), 1 << 20), file.name, package, str(wanted))
    return read_sources(fetched_file(file, cache), package)


def _version_of(file: File) -> Version | None:
    try:
        parse = parse_wheel_filename if file.name.endswith(".whl") else parse_sdist_filename
        return parse(file.name)[1]
    except ValueError:
        return None
