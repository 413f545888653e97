"""Run the lanes: a line for each result as it comes, from where it stopped."""

import argparse
import fnmatch
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from exportcompat.matrix._files import held, write_text
from exportcompat.matrix.cases import find_case
from exportcompat.registry import ExportCompatError

from ._catalogue import LANES, cases_of
from ._lane import Lane
from ._result import check_lane, key_of, versions_of

Row = Mapping[str, Any]


def run_lanes(arguments: argparse.Namespace) -> int:
    """Run the cases that have no result that is current, and print a line for each; return 0.

    Raises:
        ExportCompatError: no lane or no case matches, or what a lane that is asked for needs is not installed.
    """
    known = read_results(arguments.results)
    work = [(lane, name) for lane, name in _chosen(arguments) if arguments.fresh or not _is_current(lane, name, known)]
    print(f"{len(work)} to run, {len(known)} results in {arguments.results}", flush=True)
    for lane, name in work:
        if arguments.list:
            print(f"{lane.name} {name}")
            continue
        row = check_lane(lane, find_case(name), arguments.timeout)
        # Others may run other lanes meanwhile.
        with held(arguments.results.parent):
            _write(arguments.results, {**read_results(arguments.results), (lane.name, name): row})
        print(
            f"{lane.name:22} {name:20} {row['without']['state']:6} -> {row['with']['state']:6} {row['state']}",
            flush=True,
        )
    return 0


def read_results(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the results of a file by lane and case; none where there is no file."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {(row["lane"], row["case"]): row for row in (json.loads(line) for line in lines if line.strip())}


def _write(path: Path, known: Mapping[tuple[str, str], Row]) -> None:
    """Write one line for each result, in order, so that versions of the file can be compared."""
    write_text(path, "".join(json.dumps(known[name]) + "\n" for name in sorted(known)))


def _chosen(arguments: argparse.Namespace) -> Iterator[tuple[Lane, str]]:
    lanes = list(_lanes(arguments.lane))
    found = [(lane, name) for lane in lanes for name in cases_of(lane) if _matches(name, arguments.case)]
    if not found:
        names = sorted({name for lane in lanes for name in cases_of(lane)})
        raise ExportCompatError(f"no case matches {' '.join(arguments.case)}; cases of these lanes: {', '.join(names)}")
    return iter(found)


def _lanes(patterns: list[str]) -> Iterator[Lane]:
    """Yield the lanes that match; say which cannot be run here, if nobody has named them."""
    lanes = [lane for lane in LANES.values() if _matches(lane.name, patterns)]
    if not lanes:
        raise ExportCompatError(f"no lane matches {' '.join(patterns)}; lanes: {', '.join(LANES)}")
    for lane in lanes:
        try:
            versions_of(lane)
        except ExportCompatError as error:
            # Lanes need releases that do not go together.
            if patterns:
                raise
            print(f"left out: {error}", flush=True)
            continue
        yield lane


def _matches(name: str, patterns: list[str]) -> bool:
    return not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _is_current(lane: Lane, name: str, known: Mapping[tuple[str, str], Row]) -> bool:
    """Say whether there is a result for what is installed, and all that it depends on is as it was."""
    row = known.get((lane.name, name))
    return row is not None and row["versions"] == versions_of(lane) and row["key"] == key_of(lane, find_case(name), row)
