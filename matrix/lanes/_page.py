"""The page of the lanes."""

from pathlib import Path


def write_page(results: Path, page: Path) -> int:
    """Write the page of a file of results; return 0."""
    raise NotImplementedError
