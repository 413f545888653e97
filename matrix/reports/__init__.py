"""Results for people: a page, a table in a few lines, and why one cell is as it is."""

from ._report import write_report
from ._summary import overview, write_overview
from ._tables import Cell, read_cells, records, titles
from ._why import why

__all__ = [
    "Cell",
    "overview",
    "read_cells",
    "records",
    "titles",
    "why",
    "write_overview",
    "write_report",
]
