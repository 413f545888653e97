"""The results as a table: releases down, torch across, and the share of cases that work."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from packaging.version import Version

from exportcompat.matrix._files import write_section
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


_ROW = 10
"""Minor releases of transformers in a row of the overview."""

_Minor = tuple[int, ...]
_Tested = list[tuple[_Minor, _Minor, str]]
"""Minor releases of transformers and torch, and the state of a case whose model the release has."""


def overview(folder: Path) -> str:
    """Return what all results say, on a screen: a sentence, and shares by minor releases.

    Raises:
        ExportCompatError: there are no results, or a file is not one of ours.
    """
    cells = {cell: content["cases"] for cell, content in read_results(folder).items()}
    tested = [
        (_minor(cell[0]), _minor(cell[1]), row["state"])
        for cell, rows in cells.items()
        for row in rows.values()
        if row["state"] not in NOT_THERE
    ]
    names = {name for rows in cells.values() for name in rows}
    spans = [_span([cell[at] for cell in cells], name) for at, name in enumerate(("transformers", "torch"))]
    lines = [
        f"{len(tested):,} results of {len(names)} cases, wherever the release has the model, on",
        f"{' and '.join(spans)}: {_counts(tested)}.",
        *_carried(cells),
    ]
    return "\n".join([*lines, "", *_grid(tested)])


def _carried(cells: dict[tuple[str, str], dict[str, dict[str, Any]]]) -> Iterator[str]:
    """Yield a sentence about results that were not run; nothing where all were."""
    rows = [row for found in cells.values() for row in found.values() if row["state"] not in NOT_THERE]
    if same := sum("carried" in row for row in rows):
        told = "carried from another transformers with the same program"
        yield f"{len(rows) - same:,} of them were run, and {same:,} {told}."


def write_overview(folder: Path, page: Path) -> None:
    """Put the overview between its marks on a page, which is replaced as a whole.

    Raises:
        ExportCompatError: there are no results, or the page cannot be read or has not both marks.
    """
    write_section(page, "results", overview(folder))


def _span(releases: list[str], package: str) -> str:
    """Return how many releases of a package there are, the first and the last."""
    found = sorted(set(releases), key=Version)
    return f"{len(found)} releases of {package} ({found[0]} to {found[-1]})"


def _counts(tested: _Tested) -> str:
    """Return how many work, and how many are in each other state."""
    states = Counter(state for _, _, state in tested)
    works = sum(count for state, count in states.items() if state in WORKS)
    return ", ".join([f"{works:,} work", *(f"{states[name]:,} {name}" for name in sorted(states) if name not in WORKS)])


def _grid(tested: _Tested) -> Iterator[str]:
    """Yield a table: minor releases of transformers down, ten at a time, and those of torch across."""
    rows = groupby(sorted({release for release, _, _ in tested}), lambda release: (release[0], release[1] // _ROW))
    columns = sorted({torch for _, torch, _ in tested})
    yield "| transformers | " + " | ".join(f"torch {_dotted(torch)}" for torch in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for _, group in rows:
        releases = list(group)
        name = " to ".join(dict.fromkeys(map(_dotted, (releases[0], releases[-1]))))
        yield f"| {name} | " + " | ".join(_works(tested, releases, torch) for torch in columns) + " |"


def _works(tested: _Tested, releases: list[_Minor], torch: _Minor) -> str:
    """Return how many of the results of some releases work."""
    states = [state for release, other, state in tested if release in releases and other == torch]
    return f"{sum(state in WORKS for state in states):,}/{len(states):,}" if states else ""


def _minor(release: str) -> _Minor:
    return Version(release).release[:2]


def _dotted(release: _Minor) -> str:
    return ".".join(map(str, release))
