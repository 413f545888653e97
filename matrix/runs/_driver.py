"""The matrix: chosen cells, one after the other, each in an environment of its own; what is known is not run again."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from exportcompat.matrix.cases import Case
from exportcompat.matrix.store import CHECKED, Installed, Results
from exportcompat.matrix.versions import Cell, proofs_at_boundaries
from exportcompat.registry import ExportCompatError

from ._environments import Environments, InstallError
from ._season_results import result_path


@dataclass(frozen=True)
class Options:
    """How the matrix is run.

    Attributes:
        results: folder of the result files.
        jobs: processes at a time.
        fresh: check again what has a result already.
        carry: take results of another transformers where programs and eager's answers are the same.
    """

    results: Path
    jobs: int
    fresh: bool
    carry: bool = False


@dataclass(frozen=True)
class Task:
    """What is to do in one cell.

    Attributes:
        cell: the cell.
        cases: the chosen cases.
        todo: those of them that have no result, or an old one.
    """

    cell: Cell
    cases: Sequence[Case]
    todo: Sequence[Case]


def plan_task(cell: Cell, cases: Sequence[Case], options: Options) -> Task:
    """Compare what is wanted with what is known; nothing has to be installed for that.

    Raises:
        ExportCompatError: the result file of the cell is not one of ours.
    """
    results = results_of(cell, options.results)
    return Task(cell, cases, [case for case in cases if options.fresh or not _is_known(results, cell, case)])


def results_of(cell: Cell, folder: Path) -> Results:
    """Return the results of a cell."""
    return Results(result_path(folder, cell.transformers, cell.torch, cell.season))


def run_tasks(tasks: Sequence[Task], environments: Environments, options: Options) -> None:
    """Run what is to do, torch by torch, and remove the environments of a torch when it is done.

    Raises:
        ExportCompatError: there is no wheel or no uv.
    """
    progress = Progress(tasks)
    for torch, group in groupby((task for task in tasks if task.todo), key=lambda task: task.cell.torch):
        for task in group:
            _run(task, environments, options, progress)
        environments.drop("torch", torch)


class Progress:
    """Lines that say which cell and case is done, and how long the rest will take.

    Args:
        tasks: what will be done.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._cells = [task.cell for task in tasks if task.todo]
        self._total = sum(len(task.todo) for task in tasks)
        self._done = 0
        self._begin = time.monotonic()

    def show(self, cell: Cell, text: str) -> None:
        """Print a line."""
        place = (
            f"[cell {self._cells.index(cell) + 1}/{len(self._cells)}, case {self._done}/{self._total}{self._left()}]"
        )
        print(f"{place} {cell}: {text}", flush=True)

    def count(self, cases: int = 1) -> None:
        """Note that cases are done."""
        self._done += cases

    def _left(self) -> str:
        if not 0 < self._done < self._total:
            return ""
        seconds = (time.monotonic() - self._begin) / self._done * (self._total - self._done)
        return f", {seconds / 60:.0f} min left" if seconds > 90 else f", {seconds:.0f} s left"


def _is_known(results: Results, cell: Cell, case: Case) -> bool:
    # What could not be installed may have been out of reach for a while only.
    is_current = results.is_current(case) and results.rows[case.name]["state"] != "uninstallable"
    ends = {} if cell.season else proofs_at_boundaries().get((cell.transformers, cell.torch), {})
    wanted = ends.get(case.name, ())
    return is_current and not results.missing_proofs(case, wanted)


def _run(task: Task, environments: Environments, options: Options, progress: Progress) -> None:
    progress.show(task.cell, "making the environment")
    try:
        python = environments.python(task.cell.pins)
    except InstallError as error:
        _note_uninstallable(task, str(error), options)
        progress.count(len(task.todo))
        progress.show(task.cell, f"uninstallable: {error}")
        return
    try:
        told = set[str]()
        with cell_process(python, task.todo, options, task.cell.season) as lines:
            for line in lines:
                # A case has one line, and one for each of its proofs.
                progress.count(line.split()[1] not in told)
                told.add(line.split()[1])
                progress.show(task.cell, line)
    except ExportCompatError as error:
        # The other cells have nothing to do with that; this one is not known afterwards, and the end says so.
        progress.show(task.cell, str(error))


@contextmanager
def cell_process(python: str, cases: Sequence[Case], options: Options, season: str = "") -> Iterator[Iterator[str]]:
    """Run cases in an environment; give a line for each as it ends, and leave no process behind.

    Args:
        python: the interpreter of the environment.
        cases: the cases.
        options: how.
        season: the season that the environment is of, if it is of one.

    Raises:
        ExportCompatError: it ended before all cases had.
    """
    names, told = {case.name for case in cases}, set[str]()
    command = [python, "-W", "ignore", "-m", "exportcompat.matrix", "cell", "--results", str(options.results)]
    command += ["--jobs", str(options.jobs), *(["--fresh"] if options.fresh else [])]
    command += ["--carry"] if options.carry else []
    command += [*(["--season", season] if season else []), *sorted(names)]

    def results(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if found := names & set(line.split()[1:2]):
                told.update(found)
                yield line.rstrip()

    with tempfile.TemporaryFile("w+") as errors:
        # The folders of a source tree must not hide what is installed.
        variables = {**os.environ, "PYTHONSAFEPATH": "1"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=variables)
        try:
            yield results(process.stdout or ())
        finally:
            process.terminate()
            status = process.wait()
        if len(told) < len(names):
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["no message"])[-1]
            raise ExportCompatError(f"the cell ended early, with status {status}: {last}")


def _note_uninstallable(task: Task, problem: str, options: Options) -> None:
    """Note it for the cases that have no result; what was found before may be all that can be had for a while."""
    results, cell = results_of(task.cell, options.results), task.cell
    others = [f"{name}==none" for name in ("onnx", "onnxruntime", "onnxscript")]
    packages = (*others, f"torch=={cell.torch}", f"transformers=={cell.transformers}")
    found = Installed(".".join(map(str, sys.version_info[:3])), packages)
    for case in task.todo:
        if case.name not in results.rows:
            results.add(case, {"state": "uninstallable", "problems": [problem]}, found)


def regressions(tasks: Sequence[Task], options: Options) -> list[str]:
    """Return a line for each chosen case that worked and does not now, that is not known, and each unchecked cell."""
    found = []
    for task in tasks:
        results = results_of(task.cell, options.results)
        chosen = {case.name: results.rows.get(case.name, {}) for case in task.cases}
        found += [
            f"{task.cell}, {name}: was {row['was']}, is {row['state']}" for name, row in chosen.items() if "was" in row
        ]
        old = [case.name for case in task.todo if not _is_known(results, task.cell, case)]
        found += [f"{task.cell}: no result of today's source for {', '.join(old)}"] if old else []
        if not any(row.get("state") in CHECKED for row in chosen.values()):
            found.append(f"{task.cell}: nothing was checked")
    return found
