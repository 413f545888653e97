"""How many patches a vision tower that is traced was given: what depends on images is as long as they are many."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_COUNT: ContextVar[Any] = ContextVar("patches", default=None)


@contextmanager
def counting(count: Any) -> Iterator[None]:
    """Make `count` what `patch_count` returns."""
    token = _COUNT.set(count)
    try:
        yield
    finally:
        _COUNT.reset(token)


def patch_count() -> Any:
    """Return the number of patches; None outside of a tower that is traced."""
    return _COUNT.get()
