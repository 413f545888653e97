"""Results: files with a row for each case, and when a row is old."""

from ._merge import merge
from ._outcomes import BROKEN, CHECKED, NOT_THERE, STATES, UNTESTED, WORKS
from ._results import PACKAGES, Installed, Results, file_name, proof_texts, read_results

__all__ = [
    "BROKEN",
    "CHECKED",
    "NOT_THERE",
    "PACKAGES",
    "STATES",
    "UNTESTED",
    "WORKS",
    "Installed",
    "Results",
    "file_name",
    "merge",
    "proof_texts",
    "read_results",
]
