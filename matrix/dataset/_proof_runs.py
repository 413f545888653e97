"""What was run without a spec and with it: the evidence that it is needed, and where."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from packaging.version import Version

from exportcompat.matrix.cases import CASES
from exportcompat.matrix.reports import Cell
from exportcompat.registry import PatchingSpec

from ._result_files import Place

Record = dict[str, Any]

BROKEN = ("wrong", "fails")
"""What shows that a spec is needed, the worst first."""


def runs_without(cells: Sequence[Cell], current: Collection[Place]) -> Mapping[str, list[Record]]:
    """Return what was run without each spec and was not right, and was with it, by its id, newest releases first.

    Args:
        cells: the results, newest first.
        current: results that were found with the code of today.
    """
    found: dict[str, list[Record]] = defaultdict(list)
    for cell in cells:
        for case, row in cell.rows.items():
            for proof, item in row.get("proofs", {}).items():
                spec_id, colon, sample = proof.partition(":")
                if case in CASES and item["with"] == "works" and item["without"] in BROKEN:
                    where = {"transformers": cell.transformers, "torch": cell.torch}
                    is_current = (cell.transformers, cell.torch, case) in current
                    what = {"case": f"{case}{colon}{sample}", "outcome": item["without"], "problem": item["problem"]}
                    found[spec_id].append({**what, **where, "date": row["date"], "current": is_current})
    return found


def is_for(spec: PatchingSpec, run: Mapping[str, Any]) -> bool:
    """Say whether a spec is for the versions of a run, as far as these are named."""
    return all(item.admits(Version(run[item.package])) for item in spec.ranges if item.package in run)
