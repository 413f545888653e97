"""The command `exportcompat`."""

from ._main import main

__all__ = ["main"]
