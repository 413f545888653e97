"""`nox -s matrix`: choose cells and cases, run what is not known, and say what came out."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from exportcompat.matrix.cases import CASES, Case, chosen
from exportcompat.matrix.store import BROKEN, STATES, UNTESTED
from exportcompat.matrix.versions import Cell, all_cells, cases_of, choose, default_cells, season_cells, shard
from exportcompat.registry import ExportCompatError, text_table

from ._driver import Options, Task, cell_process, plan_task, regressions, results_of, run_tasks
from ._environments import Environments


def run_matrix(arguments: argparse.Namespace) -> int:
    """Run the chosen cells.

    Args:
        arguments: those of the command `run`.

    Returns:
        0 if nothing got worse, and something was checked in each cell.

    Raises:
        ExportCompatError: a choice fits nothing, or an environment is wanted and there is no wheel or uv.
    """
    options = Options(arguments.results.resolve(), arguments.jobs, arguments.fresh, arguments.carry)
    if arguments.pre:
        usual = [case.name for case in CASES.values() if (case.everywhere if arguments.all else case.telling)]
        cases = chosen(arguments.case or usual)
        return _run_newest(cases, Environments(arguments.folder.resolve(), arguments.wheel), options)
    tasks = [plan_task(cell, _cases(arguments, cell), options) for cell in _cells(arguments)]
    if arguments.list:
        print("\n".join(_listed(tasks, as_json=arguments.json)))
        return 0
    return _run(tasks, arguments, options)


def _run(tasks: Sequence[Task], arguments: argparse.Namespace, options: Options) -> int:
    wanted, todo = (sum(map(len, parts)) for parts in zip(*((task.cases, task.todo) for task in tasks), strict=True))
    print(f"{len(tasks)} cells, {wanted} results: {wanted - todo} are known, {todo} to run")
    try:
        run_tasks(tasks, Environments(arguments.folder.resolve(), arguments.wheel), options)
    except KeyboardInterrupt:
        print("stopped; what was found is kept, and the same command goes on")
        return 130
    return _closed(tasks, options, arguments.report)


def _run_newest(cases: Sequence[Case], environments: Environments, options: Options) -> int:
    """Run the newest pre-releases; what cannot be installed or begun is said, and is no error."""
    try:
        with cell_process(environments.newest(), cases, options) as lines:
            for line in lines:
                print(line, flush=True)
    except ExportCompatError as error:
        print(error)
    return 0


def _closed(tasks: Sequence[Task], options: Options, page: Path) -> int:
    from exportcompat.matrix.reports import write_report

    print("\n".join(_overview(tasks, options)))
    write_report(options.results, page, "html")
    print(f"\nreport: {page.resolve()}")
    worse = regressions(tasks, options)
    print("\n".join(["", *worse] if worse else ["", "nothing got worse"]))
    return 1 if worse else 0


def _cells(arguments: argparse.Namespace) -> list[Cell]:
    is_default = not (arguments.all or arguments.torch or arguments.transformers)
    if arguments.season:
        cells = choose(season_cells(arguments.season), arguments.transformers, arguments.torch)
        return shard(cells, arguments.shard)
    cells = default_cells() if is_default else choose(all_cells(), arguments.transformers, arguments.torch)
    return shard(cells, arguments.shard)


def _cases(arguments: argparse.Namespace, cell: Cell) -> list[Case]:
    if arguments.case or not arguments.all:
        return chosen(arguments.case or default_cases())
    return cases_of(cell)


def default_cases() -> list[str]:
    """Return the names of the telling cases."""
    return [case.name for case in CASES.values() if case.telling]


def _listed(tasks: Sequence[Task], *, as_json: bool) -> Iterator[str]:
    if as_json:
        yield json.dumps([{**_named(task.cell), "cases": len(task.cases), "todo": len(task.todo)} for task in tasks])
        return
    rows = [(*vars(task.cell).values(), str(len(task.cases)), str(len(task.todo))) for task in tasks]
    yield from text_table([("TRANSFORMERS", "TORCH", "SEASON", "CASES", "TO RUN"), *rows])


def _named(cell: Cell) -> dict[str, str]:
    """Return what a cell is called by; most have no season."""
    return {name: text for name, text in vars(cell).items() if text}


def _overview(tasks: Sequence[Task], options: Options) -> Iterator[str]:
    """Yield a table with the number of cases in each state, and a line for each case that does not work."""
    rows, broken, names = [], [], [state.name for state in STATES]
    for task in tasks:
        found = results_of(task.cell, options.results).rows
        states = {case.name: found.get(case.name, {}).get("state", UNTESTED) for case in task.cases}
        counts = [str(list(states.values()).count(state) or "") for state in names]
        rows.append((task.cell.transformers, task.cell.torch, *counts))
        bad = [name for name, state in states.items() if state in BROKEN]
        broken += [f"{task.cell}, {name}: {states[name]}: {found[name]['problems'][0][:150]}" for name in bad]
    yield from ["", *text_table([("TRANSFORMERS", "TORCH", *map(str.upper, names)), *rows]), "", *broken]
