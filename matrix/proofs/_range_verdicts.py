"""`nox -s boundaries`: whether ranges end where the records say, read off the results of the cells on both sides."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from exportcompat.matrix.cases import find_case
from exportcompat.matrix.runs import Environments, Options, Task, plan_task, results_of, run_tasks
from exportcompat.matrix.store import BROKEN, NOT_THERE, WORKS
from exportcompat.matrix.versions import Boundary, Cell, boundaries_of
from exportcompat.patches import default_registry


def prove_boundaries(arguments: argparse.Namespace) -> int:
    """Run what is not known of the ends of some specs and print a line for each proof; return 0 if all hold.

    Args:
        arguments: those of the command `ends`.

    Raises:
        ExportCompatError: there is no such spec, or an environment is wanted and there is no wheel or uv.
    """
    options = Options(arguments.results.resolve(), arguments.jobs, fresh=False)
    ends = [end for spec_id in arguments.spec or default_registry().ids() for end in boundaries_of(spec_id)]
    tasks = _tasks(ends, options)
    run_tasks(tasks, Environments(arguments.folder.resolve(), arguments.wheel), options)
    lines = list(verdicts(ends, options))
    print("\n".join(text for text, _ in lines))
    told = [does_hold for _, does_hold in lines if does_hold is not None]
    print(f"{sum(told)} of {len(told)} proofs hold")
    return 0 if all(told) else 1


def _tasks(ends: Sequence[Boundary], options: Options) -> list[Task]:
    cases: dict[Cell, set[str]] = {}
    for end in ends:
        for pair in end.cells():
            cases.setdefault(Cell(*pair), set()).update(case for case, _ in end.named_proofs())
    cells = sorted(cases, key=lambda cell: cell.order)
    return [plan_task(cell, [find_case(name) for name in sorted(cases[cell])], options) for cell in cells]


def verdicts(ends: Sequence[Boundary], options: Options) -> Iterator[tuple[str, bool | None]]:
    """Yield a line for each proof at each end, inside and outside, and whether it holds; None where it says nothing.

    A model may be younger than a release, or not be run there for a reason. Inside, one proof at least has to hold.
    """
    # Many ends are in one cell, whose file is read once.
    cells = {pair: results_of(Cell(*pair), options.results).rows for pair in {*chain(*(end.cells() for end in ends))}}
    for end in ends:
        for place, pair in zip(("inside", "outside"), end.cells(), strict=False):
            rows = cells[pair]
            where = f"{end.spec_id}: {place} its range of {end.package}: transformers {pair[0]}, torch {pair[1]}"
            found = [(case, *_judged(rows.get(case, {}), proof, place)) for case, proof in end.named_proofs()]
            yield from ((f"{where}, {case}: {said}: {_WORDS[verdict]}", verdict) for case, said, verdict in found)
            if place == "inside" and not any(verdict is not None for *_, verdict in found):
                yield f"{where}: no proof can be run there", False


_WORDS = {True: "holds", False: "DOES NOT HOLD", None: "says nothing"}


def _judged(row: Mapping[str, Any], proof: str, place: str) -> tuple[str, bool | None]:
    """Say what is known of a proof, and whether it is needed and enough inside, and not needed outside."""
    state = row.get("state", "not run")
    found = row.get("proofs", {}).get(proof)
    if found is None:
        return state, None if state in NOT_THERE else False
    does_hold = found["without"] in BROKEN if place == "inside" else found["without"] == "works"
    problem = f" ({found['problem'][:100]})" if found["problem"] else ""
    return f"without {found['without']}{problem}, with {found['with']}", does_hold and state in WORKS
