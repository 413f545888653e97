"""Calls that eager itself refuses, such as those beyond its table of positions: there is nothing to compare with."""

from collections.abc import Mapping
from typing import Any

from ._compared_call import first_line


class EagerRefusesError(Exception):
    """Eager refuses a call; the message is the first line of its own."""


def with_eager_limits(file: Any, eager: Any) -> tuple[Any, Any]:
    """Return both decoders of one conversation, such that what eager refuses is no fault of the file.

    Either raises `EagerRefusesError` then.
    """
    asked = _AskedEager(eager)
    return _AskedFile(file, asked), asked


class _AskedEager:
    """An eager decoder whose refusals are told from those of a file.

    Args:
        eager: the decoder; what else is asked of it, it answers itself.
    """

    def __init__(self, eager: Any) -> None:
        self._eager, self._cache = eager, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._eager, name)

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        """Return logits and cache.

        Raises:
            EagerRefusesError: eager raises, whatever it is.
        """
        try:
            logits, self._cache = self._eager(inputs, cache)
        except Exception as error:
            raise EagerRefusesError(first_line(error)) from error
        return logits, self._cache

    def ask(self, inputs: Mapping[str, Any]) -> None:
        """Make the next call of a conversation, whose outcome alone is of interest."""
        self(inputs, self._cache)


class _AskedFile:
    """A file whose refusals are put to eager, which may refuse the same call.

    Args:
        file: what takes the calls; what else is asked of it, it answers itself.
        eager: had all calls before.
    """

    def __init__(self, file: Any, eager: _AskedEager) -> None:
        self._file, self._eager = file, eager

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        """Return logits and cache.

        Raises:
            EagerRefusesError: both refuse the call.
        """
        try:
            found: tuple[Any, Any] = self._file(inputs, cache)
        except Exception:
            self._eager.ask(inputs)
            raise
        return found
