"""What a result can be."""

from dataclasses import dataclass

WORKS = ("native", "patched")
BROKEN = ("wrong", "fails")
CHECKED = (*WORKS, *BROKEN)
UNTESTED = "untested"
NOT_THERE = ("absent", "unsupported", UNTESTED, "uninstallable")
"""States of a case in which nothing was found out about it."""


@dataclass(frozen=True)
class State:
    """What a result can be.

    Attributes:
        name: as in `results.schema.json`.
        letter: for narrow tables.
        meaning: for people.
    """

    name: str
    letter: str
    meaning: str


STATES = (
    State("wrong", "W", "exports, with wrong numbers"),
    State("fails", "F", "does not export with patches"),
    State("uninstallable", "I", "cannot be installed together"),
    State("unsupported", "U", "transformers itself cannot run it"),
    State("patched", "P", "works with patches"),
    State("native", "N", "works without patches"),
    State("absent", "A", "transformers has no such model"),
    State(UNTESTED, "·", "there is no result"),
)
"""The worst first: where several results are shown as one, it is the first of these."""
