"""Packages that come with an extra."""

import importlib
import sys
from types import ModuleType
from typing import Any

from exportcompat.registry import MissingExtraError


def require(package: str, extra: str) -> ModuleType:
    """Import `package`.

    Raises:
        MissingExtraError: it is not installed; the message names the extra that brings it.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"this needs {package!r}, which is not installed; run: pip install 'exportcompat[{extra}]'"
        ) from None


def parse_toml(text: str, extra: str = "all") -> dict[str, Any]:
    """Return what a text in TOML says; Python 3.10 reads it with the package that became `tomllib`.

    Raises:
        ValueError: it is no TOML.
        MissingExtraError: Python is 3.10 and tomli is not installed.
    """
    reader = require("tomllib" if sys.version_info >= (3, 11) else "tomli", extra)
    found: dict[str, Any] = reader.loads(text)
    return found
