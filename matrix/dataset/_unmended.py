"""Breakages that no patch mends, as advisories: a case that is not right without patches and with them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from exportcompat.matrix.cases import CASES
from exportcompat.matrix.reports import Cell

from ._advisories import PREFIX, made_of
from ._proof_runs import BROKEN, Record
from ._result_files import NO_TYPE, Place


def unmended(cells: Sequence[Cell], types: Mapping[str, str], current: Collection[Place]) -> Iterator[Record]:
    """Yield an advisory for each case that is broken without patches and with them; it claims exactly what was run.

    What works without patches and not with them is a defect of exportcompat, not of upstream, and has none.

    Args:
        cells: the results, newest first.
        types: the model type of each case.
        current: results that were found with the code of today.
    """
    found: dict[str, list[Record]] = {}
    for cell in cells:
        for case, row in cell.rows.items():
            if (
                case in CASES
                and "carried" not in row
                and row["state"] in BROKEN
                and row.get("plain", {}).get("state") in BROKEN
            ):
                found.setdefault(case, []).append(_run(cell, case, row, current))
    for case, runs in found.items():
        yield _advisory(case, runs, "torch" if types.get(case) == NO_TYPE else "transformers")


def _run(cell: Cell, case: str, row: Mapping[str, Any], current: Collection[Place]) -> Record:
    where = {"transformers": cell.transformers, "torch": cell.torch, "date": row["date"]}
    is_current = (cell.transformers, cell.torch, case) in current
    return {"case": case, "outcome": row["state"], "problem": row["problems"][0], **where, "current": is_current}


def _advisory(case: str, runs: Sequence[Record], package: str) -> Record:
    affected = [
        {
            "package": {"ecosystem": "PyPI", "name": package},
            "ranges": [
                {"type": "ECOSYSTEM", "events": [{"introduced": run[package]}, {"last_affected": run[package]}]}
            ],
            "versions": [run[package]],
            "database_specific": {"requires": [f"{name}=={run[name]}" for name in ("transformers", "torch")]},
        }
        for run in runs
    ]
    text = f"{CASES[case].title}: {runs[0]['problem']}"
    commands = [f"python -m exportcompat.matrix check {case}" for _ in runs]
    return made_of(f"{PREFIX}case-{case.replace('_', '-')}", [text, "No patch mends it."], affected, runs, commands)
