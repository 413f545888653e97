"""Seasons: the versions that were current together with each minor of torch, by the dates of a package index."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from exportcompat._drift import File, configured_index, offered, without_user
from exportcompat._extras import parse_toml
from exportcompat.matrix._files import write_text
from exportcompat.registry import COMPANIONS, ExportCompatError

from ._version_axes import PYTHON, last_patches, releases

_SETTLED = timedelta(days=30)
"""How long after a release of torch the others have caught up with it."""

_YEAR = timedelta(days=365)
_HEAD = "# Written by `python -m exportcompat.matrix seasons`, from the dates of the package index; do not edit."

Days = Mapping[Version, date]
"""The day on which each release of a package came out."""


@dataclass(frozen=True)
class Season:
    """Versions that were current together.

    Attributes:
        name: the minor of torch.
        until: the last day that counts.
        transformers: the newest release of that day, and that of a year before, or else the oldest that is supported.
        versions: torch and its companions, by package; those that did not exist yet are left out.
    """

    name: str
    until: date
    transformers: tuple[str, ...]
    versions: Mapping[str, str]


def write_seasons(table: Path, index: str | None) -> Iterator[str]:
    """Find the seasons and write them to the end of the table, in place of those that are there.

    Args:
        table: a file like `axes.toml`.
        index: the URL of a simple index that gives dates; None for the one that uv or pip is configured with, or PyPI.

    Yields:
        A line for each season.

    Raises:
        ExportCompatError: the index cannot be read or gives no dates, or the table is not of this form. It is as it was
            then.
    """
    try:
        text = table.read_text("utf-8")
    except OSError as error:
        raise ExportCompatError(f"the table {table} cannot be read ({error}); give a file like axes.toml") from error
    found = list(find_seasons(index or configured_index()))
    kept = text.partition(f"\n{_HEAD}\n")[0].rstrip("\n")
    edited = "\n".join([kept, "", _HEAD, *map(_lines, found)])
    if {**parse_toml(edited), "seasons": None} != {**parse_toml(text), "seasons": None}:
        raise ExportCompatError(f"{table} has something behind the seasons, which would be lost; put it before them")
    write_text(table, edited)
    for season in found:
        yield f"{season.name}: transformers {', '.join(season.transformers)}; {_listed(season.versions)}"


def find_seasons(index: str) -> Iterator[Season]:
    """Yield the season of each minor of torch that is supported, oldest first.

    Raises:
        ExportCompatError: the index cannot be read, gives no dates, or has not all releases that are supported.
    """
    days = {package: days_of(index, package) for package in ("torch", "transformers", *COMPANIONS)}
    supported = {version: days["transformers"].get(version) for version in map(Version, releases("transformers"))}
    transformers = {version: day for version, day in supported.items() if day}
    oldest = last_patches("transformers")[0]
    for torch in last_patches("torch"):
        if Version(torch) not in days["torch"]:
            raise ExportCompatError(f"{without_user(index)} has no torch {torch} for Python {PYTHON}")
        until = days["torch"][Version(torch)] + _SETTLED
        names = [newest(transformers, until), newest(transformers, until - _YEAR) or oldest]
        others = {package: newest(days[package], until) for package in COMPANIONS}
        versions = {"torch": torch, **{package: text for package, text in others.items() if text}}
        name = ".".join(map(str, Version(torch).release[:2]))
        yield Season(name, until, tuple(dict.fromkeys(filter(None, names))), versions)


def newest(days: Days, until: date) -> str:
    """Return the newest release that was out on a day; empty if there was none."""
    return str(max((version for version, day in days.items() if day <= until), default=""))


def days_of(index: str, package: str) -> dict[Version, date]:
    """Return when each final release of a package came out that can be installed on Linux without a compiler.

    Raises:
        ExportCompatError: the index cannot be read, or does not say when a file was uploaded.
    """
    found: dict[Version, date] = {}
    for file in offered(index, package):
        version = _installable(file)
        if version is not None and not version.is_prerelease:
            day = _day(file, index)
            found[version] = min(day, found.get(version, day))
    return found


def _installable(file: File) -> Version | None:
    """Return the version of a wheel for this Python on Linux; None for any other file."""
    if file.is_yanked or not file.name.endswith(".whl"):
        return None
    try:
        _, version, _, tags = parse_wheel_filename(file.name)
        takes = SpecifierSet(file.requires_python).contains(f"{PYTHON}.0")
    except (ValueError, InvalidSpecifier):
        return None
    has_tag = any(
        (tag.interpreter, tag.abi) in _python_tags()
        and (tag.platform == "any" or ("linux" in tag.platform and tag.platform.endswith("x86_64")))
        for tag in tags
    )
    return version if takes and has_tag else None


@lru_cache(maxsize=1)
def _python_tags() -> frozenset[tuple[str, str]]:
    major, minor = map(int, PYTHON.split("."))
    tags: Iterable[Any] = (
        *cpython_tags((major, minor), platforms=["any"]),
        *compatible_tags((major, minor), f"cp{major}{minor}", ["any"]),
    )
    return frozenset((tag.interpreter, tag.abi) for tag in tags)


def _day(file: File, index: str) -> date:
    try:
        return date.fromisoformat(file.uploaded[:10])
    except ValueError:
        raise ExportCompatError(
            f"{without_user(index)} does not say when {file.name} was uploaded (PEP 700); give another with --index"
        ) from None


def _lines(season: Season) -> str:
    names = ", ".join(f'"{text}"' for text in season.transformers)
    rows = [f'name = "{season.name}"', f"until = {season.until}", f'python = "{PYTHON}"', f"transformers = [{names}]"]
    return "\n".join(["[[seasons]]", *rows, *(f'{name} = "{text}"' for name, text in season.versions.items()), ""])


def _listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in versions.items())
