"""What works, from data: the files of `exportcompat-data`, and the answers that they give."""

from ._cells import BROKEN, DYNAMO, NOT_TESTED, OUTCOMES, UNKNOWN, WORKS, Cell, cells_of
from ._files import SCHEMA, Dataset, dataset
from ._resolve import model_type_of, requirement, working
from ._spec_evidence import admits
from ._works import Compatibility, find_cells, works

__all__ = [
    "BROKEN",
    "DYNAMO",
    "NOT_TESTED",
    "OUTCOMES",
    "SCHEMA",
    "UNKNOWN",
    "WORKS",
    "Cell",
    "Compatibility",
    "Dataset",
    "admits",
    "cells_of",
    "dataset",
    "find_cells",
    "model_type_of",
    "requirement",
    "working",
    "works",
]
