"""How files are compared with eager: the calls that say "works", for each kind of model."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from exportcompat import Discrepancy
    from exportcompat._verification import Program


def compare_decoder(path: "Path | Program", make: Callable[[], Any]) -> "list[Discrepancy]":
    """Run the calls that say "works" of a decoder; see `exportcompat._verification`."""
    from exportcompat._verification import compare, decoder_schedules

    return compare(path, make, decoder_schedules())


def compare_beyond(path: "Path | Program", make: Callable[[], Any]) -> "list[Discrepancy]":
    """Run the usual calls of a decoder, then calls of more than 64 tokens, the fixed chunk of some layers."""
    from exportcompat._verification import Schedule, compare, decoder_schedules

    return compare(path, make, [*decoder_schedules(), Schedule(3, (70, 1, 130, 2), 2)])


def compare_unpadded(path: "Path | Program", make: Callable[[], Any]) -> "list[Discrepancy]":
    """Run the usual calls of a decoder without padding, which eager cannot have in some releases."""
    from exportcompat._verification import compare, decoder_schedules

    return compare(path, make, [schedule for schedule in decoder_schedules() if not schedule.padding])
