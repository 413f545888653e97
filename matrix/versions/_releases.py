"""New releases of torch and transformers, from a package index into the table of supported ones."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from exportcompat._drift import configured_index, offered, without_user
from exportcompat._extras import parse_toml
from exportcompat.matrix._files import write_text
from exportcompat.registry import ExportCompatError


@dataclass(frozen=True)
class _Offer:
    """The final releases of a package that an index has.

    Attributes:
        good: those that are not yanked.
        yanked: those of which every file is.
    """

    good: frozenset[Version]
    yanked: frozenset[Version]


def add_releases(table: Path, index: str | None) -> Iterator[str]:
    """Add the releases that are newer than the newest in the table, and write the table if there are any.

    Args:
        table: a file like `axes.toml`.
        index: the URL of a simple index; None for the one that uv or pip is configured with, or PyPI.

    Yields:
        A line for each release that was added, for those that were left out, and for each that the index does not have.

    Raises:
        ExportCompatError: the table or the index cannot be read, or the table cannot be edited so that only the lists
            of releases grow. It is as it was then.
        MissingExtraError: Python is 3.10 and tomli is not installed.
    """
    text = _text(table)
    known = _known(text, table)
    url = index or configured_index()
    offers = {name: _offer(url, name) for name in known}
    new = {name: _newer(offers[name].good, known[name]) for name in known}
    if any(new.values()):
        _write(table, text, new)
    yield from [line for name in known for line in _lines(name, known[name], new[name], offers[name])]
    if not any(new.values()):
        yield "nothing new"


def _known(text: str, table: Path) -> dict[str, list[str]]:
    """Return the releases in a table, by package."""
    content = _loads(text, table)
    known = {name: item["releases"] for name, item in content.items() if isinstance(item, dict) and "releases" in item}
    try:
        has_all = all([Version(version) for version in versions] for versions in known.values())
    except (InvalidVersion, TypeError) as error:
        raise ExportCompatError(f"{table} has a release that is no version ({error}); correct it") from error
    if not known or not has_all:
        raise ExportCompatError(f"{table} has no releases to begin with; give a file like axes.toml")
    return known


def _newer(offered: Iterable[Version], known: Sequence[str]) -> list[str]:
    newest = max(map(Version, known))
    return [str(version) for version in sorted(offered) if version > newest]


def _lines(package: str, known: Sequence[str], new: Sequence[str], offer: _Offer) -> Iterator[str]:
    """Yield what became of the releases of a package."""
    has = {Version(text) for text in known}
    yield from (f"{package} {text}: added" for text in new)
    for text in known:
        if Version(text) not in offer.good:
            reason = "the index has yanked it" if Version(text) in offer.yanked else "the index does not have it"
            yield f"{package} {text}: {reason}; it stays in the table"
    left = [version for version in offer.good - has if min(has) < version < max(has)]
    if left:
        yield f"{package}: {len(left)} left out: not newer than {max(has)}"


def _text(table: Path) -> str:
    try:
        # Line ends are kept as they are.
        return table.read_bytes().decode("utf-8")
    except (OSError, ValueError) as error:
        raise ExportCompatError(f"the table {table} cannot be read ({error}); give a file like axes.toml") from error


def _loads(text: str, table: Path) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ExportCompatError(f"{table} is no TOML ({error}); mend it and run this again") from error


def _write(table: Path, text: str, new: dict[str, list[str]]) -> None:
    """Write the table with new releases, if nothing but that has changed in it."""
    edited = text
    for package, versions in new.items():
        edited = _edited(edited, package, versions)
    wanted = _loads(text, table)
    for package, versions in new.items():
        wanted[package]["releases"] += versions
    try:
        is_right = _loads(edited, table) == wanted
    except ExportCompatError:
        is_right = False
    if not is_right:
        found = ", ".join(f"{package} {version}" for package, versions in new.items() for version in versions)
        raise ExportCompatError(
            f"{table} has another form than one line for each minor; add these releases by hand: {found}"
        )
    try:
        write_text(table, edited)
    except OSError as error:
        raise ExportCompatError(f"{table} cannot be written ({error}); mend that and run this again") from error


def _edited(text: str, package: str, versions: Sequence[str]) -> str:
    """Return the text of a table with releases added behind the last one of a package."""
    lines = text.splitlines(keepends=True)
    place = _last_line(lines, package)
    if place is None:
        return text
    for minor, group in groupby(versions, key=_minor):
        items = " ".join(f'"{version}",' for version in group)
        line, code = lines[place], _code(lines[place])
        is_same = _minor(_items(line)[-1]) == minor
        lines[place] = f"{code.removesuffix(',')},{f' {items}' if is_same else ''}{line[len(code) :]}"
        if not is_same:
            place += 1
            lines.insert(place, f"{_indent(line)}{items}{_line_end(line)}")
    return "".join(lines)


def _last_line(lines: Sequence[str], package: str) -> int | None:
    """Return the number of the last line with releases of a package."""
    place, is_there = None, False
    for number, line in enumerate(lines):
        if line.startswith("["):
            is_there = _code(line) == f"[{package}]"
        elif is_there and _items(line):
            place = number
    return place


def _code(line: str) -> str:
    """Return a line without its comment and the space before that; no release has a `#` in it."""
    return line.partition("#")[0].rstrip()


def _items(line: str) -> list[str]:
    """Return the releases in a line that has nothing else."""
    return re.findall(r'"([0-9.]*[0-9](?:[.]post[0-9]+)?)"', _code(line)) if line.lstrip().startswith('"') else []


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _line_end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _minor(text: str) -> tuple[int, int]:
    version = Version(text)
    return version.major, version.minor


def _offer(index: str, package: str) -> _Offer:
    """Return the final releases of a package; one is yanked if all of its files are."""
    good: set[Version] = set()
    yanked: set[Version] = set()
    for file in offered(index, package):
        version = _version(file.name, package)
        if version is not None and not version.is_prerelease:
            (yanked if file.is_yanked else good).add(Version(version.public))
    if not good:
        raise ExportCompatError(
            f"{without_user(index)} has no final release of {package}; give another index with --index"
        )
    return _Offer(frozenset(good), frozenset(yanked - good))


def _version(file: str, package: str) -> Version | None:
    """Return the version in a file's name; None if it is no file of the package."""
    try:
        name, version = parse_wheel_filename(file)[:2] if file.endswith(".whl") else parse_sdist_filename(file)
    except ValueError:
        return None
    return version if name == canonicalize_name(package) else None
