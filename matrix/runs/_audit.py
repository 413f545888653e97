"""Carried results run after all: not one may come out in another state."""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from exportcompat.matrix.cases import CASES
from exportcompat.matrix.store import Installed, Results
from exportcompat.matrix.versions import Cell

from ._driver import Options, cell_process, results_of
from ._environments import Environments


@dataclass(frozen=True)
class Carried:
    """A carried result.

    Attributes:
        cell: where it is.
        case: the name of the case.
        row: the result.
        is_here: its environment is the one that is running.
    """

    cell: Cell
    case: str
    row: Mapping[str, Any]
    is_here: bool


def audit(arguments: argparse.Namespace) -> int:
    """Draw carried results, run each in its environment, and print a line for each.

    Args:
        arguments: those of the command `audit`. Without a wheel, those of the running environment are drawn alone.

    Returns:
        0 if each has come out as it was carried, or nothing is carried.

    Raises:
        ExportCompatError: a cell came to no end, or an environment cannot be made.
    """
    known = [item for item in carried_in(arguments.results) if arguments.wheel or item.is_here]
    if not known:
        print(f"no current result in {arguments.results} is carried: there is nothing to run")
        return 0
    drawn = draw(known, arguments.carried, arguments.seed)
    print(f"{len(drawn)} of {len(known)} carried results are run (seed {arguments.seed})", flush=True)
    environments, others = Environments(arguments.folder.resolve(), arguments.wheel), list[str]()
    for cell, group in groupby(drawn, key=lambda item: item.cell):
        others += _run(cell, list(group), environments, arguments.jobs)
    print(f"{len(others)} of {len(drawn)} come out in another state", *others, sep="\n")
    return 1 if others else 0


def draw(known: Sequence[Carried], count: int, seed: int) -> list[Carried]:
    """Return some results, the same ones for the same seed, cell by cell."""
    order = sorted(known, key=lambda item: (item.cell.order, item.cell.season, item.case))
    generator = random.Random(seed)  # noqa: S311 (nothing is to be kept secret)
    drawn = generator.sample(range(len(order)), min(count, len(order)))
    return [order[number] for number in sorted(drawn)]


def carried_in(folder: Path) -> Iterator[Carried]:
    """Yield the carried results of a folder that are current, those of seasons included."""
    here = Installed.here().versions
    for path in sorted(folder.rglob("transformers-*.json")):
        results, season = Results(path), path.stem.partition("_season-")[2].partition("_python-")[0]
        for name, row in results.rows.items():
            if "carried" in row and name in CASES and results.is_current(CASES[name]):
                versions = results.versions(name)
                cell = Cell(versions["transformers"], versions["torch"], season)
                yield Carried(cell, name, row, versions == here)


def _run(cell: Cell, items: Sequence[Carried], environments: Environments, jobs: int) -> list[str]:
    """Run what was drawn of a cell, and return a line for each that comes out in another state."""
    python = sys.executable if all(item.is_here for item in items) else environments.python(cell.pins)
    with tempfile.TemporaryDirectory() as folder:
        options = Options(Path(folder), jobs, fresh=True)
        cases = [CASES[item.case] for item in items]
        with cell_process(python, cases, options, cell.season) as lines:
            for line in lines:
                print(f"{cell}: {line}", flush=True)
        rows = results_of(cell, Path(folder)).rows
    return [
        f"{cell}, {item.case}: carried from {item.row['carried']} as {states(item.row)}, is {states(rows[item.case])}"
        for item in items
        if states(item.row) != states(rows[item.case])
    ]


def states(row: Mapping[str, Any]) -> str:
    """Return how a case is with patches and without."""
    return f"{row['state']} (without patches {row.get('plain', {}).get('state', 'not run')})"
