"""Packages that come with an extra."""

import importlib
from types import ModuleType

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
