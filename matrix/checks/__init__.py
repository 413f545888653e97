"""One case on what is installed: exported, compared with eager, and everything afterwards as it was."""

from ._check import Outcome, check, quiet
from ._restoration import Snapshot
from ._row import ablate, broken, cache_classes, check_case, loaded_models, proved, state_of

__all__ = [
    "Outcome",
    "Snapshot",
    "ablate",
    "broken",
    "cache_classes",
    "check",
    "check_case",
    "loaded_models",
    "proved",
    "quiet",
    "state_of",
]
