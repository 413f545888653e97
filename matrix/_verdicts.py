"""`nox -s ends`: whether ranges end where the records say, read off the results of the cells on both sides."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from exportcompat.patches import default_registry

from ._cases import find_case
from ._cells import Cell
from ._driver import Options, Task, plan_task, results_of, run_tasks
from ._ends import End, ends_of
from ._environments import Environments
from ._states import BROKEN, NOT_THERE, WORKS


def prove_ends(arguments: argparse.Namespace) -> int:
    """Run what is not known of the ends of some specs and print a line for each proof; return 0 if all hold.

    Args:
        arguments: those of the command `ends`.

    Raises:
        ExportCompatError: there is no such spec, or an environment is wanted and there is no wheel or uv.
    """
    options = Options(arguments.results.resolve(), arguments.jobs, fresh=False)
    ends = [end for spec_id in arguments.spec or default_registry().ids() for end in ends_of(spec_id)]
    tasks = _tasks(ends, options)
    run_tasks(tasks, Environments(arguments.folder.resolve(), arguments.wheel), options)
    lines = list(verdicts(ends, options))
    print("\n".join(text for text, _ in lines))
    broken = [text for text, does_hold in lines if not does_hold]
    print(f"{len(lines) - len(broken)} of {len(lines)} proofs hold")
    return 1 if broken else 0


def _tasks(ends: Sequence[End], options: Options) -> list[Task]:
    cases: dict[Cell, set[str]] = {}
    for end in ends:
        for pair in end.cells():
            cases.setdefault(Cell(*pair), set()).update(case for case, _ in end.named_proofs())
    cells = sorted(cases, key=lambda cell: cell.order)
    return [plan_task(cell, [find_case(name) for name in sorted(cases[cell])], options) for cell in cells]


def verdicts(ends: Sequence[End], options: Options) -> Iterator[tuple[str, bool]]:
    """Yield a line for each proof at each end, inside and outside, and whether it holds."""
    for end in ends:
        for place, pair in zip(("inside", "outside"), end.cells(), strict=False):
            rows = results_of(Cell(*pair), options.results).rows
            for case, proof in end.named_proofs():
                said, does_hold = _judged(rows.get(case, {}), proof, is_inside=place == "inside")
                where = f"transformers {pair[0]}, torch {pair[1]}, {case}"
                verdict = "holds" if does_hold else "DOES NOT HOLD"
                yield f"{proof}: {place} its range of {end.package}: {where}: {said}: {verdict}", does_hold


def _judged(row: Mapping[str, Any], proof: str, *, is_inside: bool) -> tuple[str, bool]:
    """Say what is known of a proof, and whether it is needed and enough within, and not needed or not there outside."""
    state = row.get("state", "not run")
    found = row.get("proofs", {}).get(proof)
    if found is None:
        return state, not is_inside and state in NOT_THERE
    does_hold = found["without"] in BROKEN if is_inside else found["without"] == "works"
    problem = f" ({found['problem'][:100]})" if found["problem"] else ""
    return f"without {found['without']}{problem}, with {found['with']}", does_hold and state in WORKS
