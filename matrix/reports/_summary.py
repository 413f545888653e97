"""The results as a table: releases down, torch across, and the share of cases that work."""

from pathlib import Path
from typing import Any

from packaging.version import Version

from exportcompat.matrix.store import NOT_THERE, WORKS, read_results
from exportcompat.matrix.versions import Cell, cases_of


def summary(folder: Path) -> str:
    """Return a Markdown table of all result files.

    Raises:
        ExportCompatError: there are no results, or a file is not one of ours.
    """
    cells = {cell: content["cases"] for cell, content in read_results(folder).items()}
    columns = sorted({torch for _, torch in cells}, key=Version)
    rows = sorted({transformers for transformers, _ in cells}, key=Version)
    lines = [
        "| transformers | " + " | ".join(f"torch {name}" for name in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    lines += [f"| {row} | " + " | ".join(_share(cells, row, name) for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def _share(cells: dict[tuple[str, str], dict[str, dict[str, Any]]], transformers: str, torch: str) -> str:
    """Return how many of the cases whose model exists work, and in brackets how many were not run yet."""
    rows = cells.get((transformers, torch), {})
    states = [row["state"] for row in rows.values() if row["state"] not in NOT_THERE]
    if not states:
        return ""
    missing = sum(case.name not in rows for case in cases_of(Cell(transformers, torch)))
    return f"{sum(state in WORKS for state in states)}/{len(states)}" + f" (+{missing})" * bool(missing)
