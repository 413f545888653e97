"""One case on what is installed: exported, compared with eager, and everything afterwards as it was."""

from ._check import Outcome, check, quiet
from ._row import ablate, broken, check_case, proved

__all__ = [
    "Outcome",
    "ablate",
    "broken",
    "check",
    "check_case",
    "proved",
    "quiet",
]
