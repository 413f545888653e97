"""Results for people: a page, a table in a few lines, and why one cell is as it is."""

from ._report import write_report
from ._summary import overview, write_overview
from ._why import why

__all__ = [
    "overview",
    "why",
    "write_overview",
    "write_report",
]
