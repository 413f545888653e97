"""One case on what is installed: exported, compared with eager, and everything afterwards as it was."""

from ._check import Outcome, check, quiet
from ._row import both, broken, left_out, proved

__all__ = [
    "Outcome",
    "both",
    "broken",
    "check",
    "left_out",
    "proved",
    "quiet",
]
