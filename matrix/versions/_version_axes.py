"""What `axes.toml` says: the supported releases, the cells, and what is not run."""

import fnmatch
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from packaging.version import Version

from exportcompat._extras import parse_toml
from exportcompat.registry import ExportCompatError, parse_range

PYTHON = "3.11"
"""The Python of every environment: every supported release of torch and transformers can be installed for it."""

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
"""Those that are supported."""

_FILE = Path(__file__).parents[1] / "axes.toml"


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return parse_toml(_FILE.read_text("utf-8"))


def releases(package: str) -> list[str]:
    """Return the supported releases of torch or transformers, oldest first.

    Raises:
        ExportCompatError: the table has no such package.
    """
    table = _table()
    if "releases" not in table.get(package, {}):
        known = ", ".join(name for name in table if "releases" in table[name])
        raise ExportCompatError(f"{_FILE.name} has no releases of {package!r}; it has those of {known}")
    found: list[str] = table[package]["releases"]
    return found


def release(package: str, text: str) -> str:
    """Return a release, given as `oldest`, `newest` or itself.

    Raises:
        ExportCompatError: it is not supported.
    """
    known = last_patches(package)
    found = {"oldest": known[0], "newest": known[-1]}.get(text, text)
    if found not in releases(package):
        raise ExportCompatError(f"{package} {text} is not among the supported releases, {known[0]} to {known[-1]}")
    return found


def policy() -> dict[str, Any]:
    """Return what is said of cells: `cells` and `default`."""
    return {name: _table()[name] for name in ("cells", "default")}


def seasons() -> dict[str, dict[str, Any]]:
    """Return the versions that were current together, by the name of each season, oldest first."""
    return {row["name"]: row for row in _table().get("seasons", ())}


def season(name: str) -> dict[str, Any]:
    """Return the versions of one season.

    Raises:
        ExportCompatError: there is none of this name.
    """
    known = seasons()
    if name not in known:
        raise ExportCompatError(f"{_FILE.name} has no season {name!r}; it has {', '.join(known) or 'none'}")
    return known[name]


def exclusion(case: str, versions: Mapping[str, str]) -> str:
    """Return why a case is not run on these versions, with a link; empty if it is."""
    for row in _table()["exclusions"]:
        if not any(fnmatch.fnmatchcase(case, pattern) for pattern in row["cases"]):
            continue
        ranges = [parse_range(text) for text in row["requires"]]
        if all(item.admits(Version(versions[item.package])) for item in ranges):
            return f"{row['reason']} ({row['link']})"
    return ""


def beside(spec_id: str, package: str) -> dict[str, str]:
    """Return the versions beside which the ends of one spec are proved, where they are not the usual ones."""
    rows = [row for row in _table()["beside"] if spec_id in row["specs"] and row["package"] == package]
    return {name: text for row in rows for name, text in row["versions"].items()}


def last_patches(package: str) -> list[str]:
    """Return the last patch release of each minor, oldest first."""
    minors = {Version(text).release[:2]: text for text in releases(package)}
    return list(minors.values())
