"""What is known while a vision tower is traced: how many patches it was given, and what was made of them once."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_ENCODER: ContextVar[tuple[Any, dict[int, Any]] | None] = ContextVar("tower", default=None)


@contextmanager
def counting(count: Any) -> Iterator[None]:
    """Make `count` what `patch_count` returns."""
    token = _ENCODER.set((count, {}))
    try:
        yield
    finally:
        _ENCODER.reset(token)


def patch_count() -> Any:
    """Return the number of patches; None outside of a tower that is traced."""
    tower = _ENCODER.get()
    return tower and tower[0]


def encoder_memory() -> dict[int, Any]:
    """Return what the layers of a tower share; a new one outside of a tower that is traced."""
    tower = _ENCODER.get()
    return tower[1] if tower else {}
