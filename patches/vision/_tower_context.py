"""What is known while a vision tower is traced: how many patches it was given, and what was made of them once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_ENCODER: ContextVar[tuple[Any, dict[int, tuple[Any, Any]]] | None] = ContextVar("tower", default=None)


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


def shared(ends: Any, make: Callable[[], Any]) -> Any:
    """Return what `make` gives for the ends of segments, once for the layers of a tower that is traced."""
    tower = _ENCODER.get()
    made = tower[1] if tower else {}
    if id(ends) not in made:
        # The ends are kept, too: as long as they are alive, their number is theirs.
        made[id(ends)] = ends, make()
    return made[id(ends)][1]
