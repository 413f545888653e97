"""The supported releases, as `axes.toml` lists them."""

import importlib
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from packaging.version import Version

from exportcompat.registry import ExportCompatError

_FILE = Path(__file__).with_name("axes.toml")


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    """Return the table; Python 3.10 reads it with the package that became `tomllib`."""
    reader = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    table: dict[str, Any] = reader.loads(_FILE.read_text("utf-8"))
    return table


def releases(package: str) -> list[str]:
    """Return the supported releases of torch or transformers, oldest first.

    Raises:
        ExportCompatError: the table has no such package.
    """
    if package not in _table():
        raise ExportCompatError(f"{_FILE.name} has no releases of {package!r}; it has those of {', '.join(_table())}")
    found: list[str] = _table()[package]["releases"]
    return found


def last_patches(package: str) -> list[str]:
    """Return the last patch release of each minor, oldest first."""
    minors = {Version(text).release[:2]: text for text in releases(package)}
    return list(minors.values())
