"""Files of requirements, as pip reads them: which versions they pin."""

import re
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from exportcompat.registry import ExportCompatError

_INCLUDE = re.compile(r"(?:-r|-c|--requirement|--constraint)(?:\s+|=|(?<=-[rc]))(\S+)")
_COMMENT = re.compile(r"(^|\s)#.*$")
_LOCAL = (".", "/", "~", "file:", "http:", "https:", "git+")
"""How a line begins that names no package."""


def requirements(path: Path) -> Iterator[Requirement]:
    """Yield the requirements of a file, and of the files that it includes, whose markers hold here.

    Raises:
        ExportCompatError: a file cannot be read, or a line is no requirement.
    """
    yield from _read(path, {path.resolve()})


def pinned(requirement: Requirement) -> str:
    """Return the one version that a requirement admits; empty if it admits several, or names a file."""
    if requirement.url or len(requirement.specifier) != 1:
        return ""
    (part,) = requirement.specifier
    return part.version if part.operator in ("==", "===") and not part.version.endswith(".*") else ""


def name_of(requirement: Requirement) -> str:
    """Return the name of a package as the registry has it."""
    return str(canonicalize_name(requirement.name))


def _read(path: Path, seen: set[Path]) -> Iterator[Requirement]:
    for number, line in _lines(path):
        included = _INCLUDE.fullmatch(line)
        if included:
            other = path.parent / included[1]
            if other.resolve() not in seen:
                yield from _read(other, {*seen, other.resolve()})
        elif not line.startswith(("-", *_LOCAL)):
            found = _parsed(line, f"{path}, line {number}")
            if found.marker is None or found.marker.evaluate():
                yield found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, without comments; one that ends with a backslash goes on."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        raise ExportCompatError(
            f"{path} cannot be read ({error}); name a file of requirements or a lock file"
        ) from None
    begun = ""
    for number, line in enumerate(text.splitlines(), 1):
        begun += line
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        if bare := _COMMENT.sub("", begun).strip():
            yield number, bare
        begun = ""


def _parsed(line: str, where: str) -> Requirement:
    # What pip allows behind a requirement, such as `--hash`, is no part of it.
    bare = re.split(r"\s--?\w", line, maxsplit=1)[0].strip()
    try:
        return Requirement(bare)
    except InvalidRequirement as error:
        raise ExportCompatError(
            f"{where}: {bare!r} is no requirement ({error}); write one such as torch==2.13.0"
        ) from None
