"""One case on what is installed: exported, compared with eager, and everything afterwards as it was."""

from ._check import Outcome, check, quiet
from ._content import DIGESTS, captured, check_with_content, has_content
from ._restoration import Snapshot
from ._row import ablate, broken, cache_classes, check_case, loaded_models, proved, state_of

__all__ = [
    "DIGESTS",
    "Outcome",
    "Snapshot",
    "ablate",
    "broken",
    "cache_classes",
    "captured",
    "check",
    "check_case",
    "check_with_content",
    "has_content",
    "loaded_models",
    "proved",
    "quiet",
    "state_of",
]
