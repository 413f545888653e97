"""One cell: every case on the installed versions, with a result file that is resumed."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat.matrix._fork_server import run_forked
from exportcompat.matrix.cases import Case, chosen
from exportcompat.matrix.checks import has_content, proved
from exportcompat.matrix.store import (
    BROKEN,
    PACKAGES,
    WORKS,
    Installed,
    Neighbour,
    Neighbours,
    Results,
    carried,
    with_code,
)
from exportcompat.matrix.versions import exclusion, proofs_at_boundaries, recorded_proof

from ._own_proofs import own_proofs
from ._season_results import linear_problem, result_path
from ._worker_pool import CAPTURES, USUAL, Limits, Work, run_jobs

Row = dict[str, Any]

_PATIENCE = 300
"""Seconds for what is asked of all specs in a process of its own."""


def run_cell(
    folder: Path,
    patterns: Iterable[str],
    *,
    jobs: int,
    fresh: bool,
    carry: bool = False,
    limits: Limits = USUAL,
    season: str = "",
    proofs: bool = False,
) -> int:
    """Check the cases that match, write a result after each, and print a line for each.

    Args:
        folder: where the file of this cell is.
        patterns: shell patterns of names of cases; all if there is none.
        jobs: number of processes at a time.
        fresh: check again what has a result already.
        carry: take the result of another transformers where programs and eager's answers are the same.
        limits: time and memory of one case.
        season: the season that the results are kept for; empty where the companions are what is newest.
        proofs: check each spec's first proof without it as well, and not only those at the ends of ranges.

    Returns:
        0 if each case that exists here works.

    Raises:
        ExportCompatError: no case matches, or the file is not one of ours.
        MissingExtraError: torch, transformers, onnx, onnxscript or onnxruntime is not installed.
    """
    for package in PACKAGES:
        require(package, "all")
    cases, installed = chosen(patterns), Installed.here()
    names = installed.versions["transformers"], installed.versions["torch"]
    results = Results(result_path(folder, *names, season, installed.versions["python"]))
    todo = [case for case in cases if fresh or not _is_known(results, case, installed)]
    print(f"{results.path.name}: {len(cases)} cases, {len(cases) - len(todo)} of them known", flush=True)
    unrun = _unrun(todo, installed, season)
    wanted = {} if season else proofs_at_boundaries().get(names, {})
    if proofs:
        wanted = _with_first_proofs(wanted)
    # What is proved without a spec is to be seen to work with it.
    near = _near(todo, Neighbours(results.path, installed), {*unrun, *wanted}) if carry else {}
    for case, row in _rows(todo, unrun, near, installed, Pool(jobs, limits)):
        results.add(case, with_code(row), installed)
        print(_line(case, row), flush=True)
    _prove(results, cases, wanted, Pool(jobs, limits))
    states = [results.rows[case.name]["state"] for case in cases]
    return 0 if set(WORKS) & set(states) and not set(BROKEN) & set(states) else 1


@dataclass(frozen=True)
class Pool:
    """Processes in which work is done.

    Attributes:
        jobs: how many at a time.
        limits: time and memory of one case.
    """

    jobs: int
    limits: Limits

    def run(self, work: Sequence[Work]) -> Iterator[tuple[Work, Row]]:
        """Yield each piece of work with its result, as they end."""
        return run_jobs(work, self.jobs, self.limits)


def _near(todo: list[Case], neighbours: Neighbours, always_run: Collection[str]) -> dict[str, list[Neighbour]]:
    """Return the results from which those of cases may be carried, by the case; only cases that have some."""
    found = {case.name: neighbours.of(case) for case in todo if has_content(case) and case.name not in always_run}
    return {name: items for name, items in found.items() if items}


def _rows(
    todo: list[Case],
    unrun: Mapping[str, Row],
    near: Mapping[str, list[Neighbour]],
    installed: Installed,
    pool: Pool,
) -> Iterator[tuple[Case, Row]]:
    """Yield the row of each case: those that nothing is run for, those that are carried, and the others."""
    yield from ((case, unrun[case.name]) for case in todo if case.name in unrun)
    left = [case for case in todo if case.name not in unrun]
    for (case, _), found in pool.run([(case, CAPTURES) for case in left if case.name in near]):
        rows = (carried(case, with_code(found), item, installed.versions) for item in near[case.name])
        if row := next(filter(None, rows), None):
            left.remove(case)
            yield case, row
    yield from ((case, row) for (case, _), row in pool.run([(case, "") for case in left]))


def _is_known(results: Results, case: Case, installed: Installed) -> bool:
    # Whoever runs cells takes what could not be installed for unknown, and waits for a line about it.
    return results.is_current(case, installed) and results.rows[case.name]["state"] != "uninstallable"


def _unrun(todo: list[Case], installed: Installed, season: str) -> dict[str, dict[str, Any]]:
    """Return the rows of cases that are not run, by name."""
    if season and todo and (problem := linear_problem()):
        return {case.name: {"state": "uninstallable", "problems": [problem]} for case in todo}
    reasons = {case.name: exclusion(case.name, installed.versions) for case in todo}
    return {name: {"state": "untested", "problems": [text]} for name, text in reasons.items() if text}


def _with_first_proofs(wanted: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the proofs of cases with the first one of each spec that applies here."""
    found = {name: list(items) for name, items in wanted.items()}
    # Whether models exist is asked by importing some, and results rest on all that are loaded where they are run.
    for case, name in run_forked(_first_proofs, (), _PATIENCE):
        if name not in found.setdefault(case, []):
            found[case].append(name)
    return found


def _first_proofs() -> list[tuple[str, str]]:
    """Return the case and the name of the first proof of each spec that applies here."""
    return [recorded_proof(spec.id, proof) for spec, proof in own_proofs()]


def _prove(results: Results, cases: list[Case], wanted: Mapping[str, Sequence[str]], pool: Pool) -> None:
    """Find out what is not known of the proofs, and print a line for each."""
    missing = [(case, proof) for case in cases for proof in results.missing_proofs(case, wanted.get(case.name, ()))]
    # Without a spec that was not applied, the row is as it is; it says nothing of another sample.
    known = [
        item for item in missing if ":" not in item[1] and item[1] not in results.rows[item[0].name].get("applied", ())
    ]
    work = [item for item in missing if item not in known]
    for (case, proof), found in chain(((item, proved("works")) for item in known), pool.run(work)):
        results.add_proof(case, proof, found)
        print(f"{'without':11} {case.name:24} {proof}: {found['without']}, with it: {found['with']}", flush=True)


def _line(case: Case, row: dict[str, Any]) -> str:
    same = [f"same program as {row['carried']}"] if "carried" in row else []
    notes = "; ".join([*same, *row["problems"]])[:150]
    return (
        f"{row['state']:11} {case.name:24} {row.get('total_seconds', 0):5.1f} s {row.get('megabytes', 0):5} MB  {notes}"
    )
