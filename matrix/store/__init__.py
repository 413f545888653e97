"""Results: files with a row for each case, and when a row is old."""

from ._carry import Neighbour, Neighbours, carried, with_code
from ._dependencies import own_source
from ._merge import merge
from ._outcomes import BROKEN, CHECKED, NOT_THERE, STATES, UNTESTED, WORKS
from ._rekey import rekey, write_evidence
from ._result_key import code_of, key, own_digest, parts_of
from ._results import (
    PACKAGES,
    Installed,
    Results,
    check_content,
    file_name,
    proof_texts,
    read_results,
    results_here,
)
from ._source_tree import SourceTree

__all__ = [
    "BROKEN",
    "CHECKED",
    "NOT_THERE",
    "PACKAGES",
    "STATES",
    "UNTESTED",
    "WORKS",
    "Installed",
    "Neighbour",
    "Neighbours",
    "Results",
    "SourceTree",
    "carried",
    "check_content",
    "code_of",
    "file_name",
    "key",
    "merge",
    "own_digest",
    "own_source",
    "parts_of",
    "proof_texts",
    "read_results",
    "rekey",
    "results_here",
    "with_code",
    "write_evidence",
]
