"""The result of a case in a lane: what came of it without patches and with them, and what that rests on."""

import hashlib
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exportcompat.matrix._fork_server import NoResultError, run_forked
from exportcompat.matrix.cases import Case
from exportcompat.matrix.checks import state_of
from exportcompat.matrix.store import code_of
from exportcompat.registry import ExportCompatError, installed_version

from ._lane import Lane
from ._steps import CAPTURE, CONVERT, RUN, compare_step, export_step

WORKS, WRONG, FAILS = "works", "wrong", "fails"
CANNOT = "upstream-cannot"
"""The lane's own tools refuse what was captured right, and it holds no operator that patches brought in."""

STATES = ("native", "patched", WRONG, FAILS, CANNOT)

_BASE = ("torch", "transformers")
_STEPS = tuple(f"{step.__module__}:{step.__qualname__}" for step in (export_step, compare_step))


def check_lane(lane: Lane, case: Case, timeout: float) -> dict[str, Any]:
    """Export and compare a case without patches and with them, and return the result.

    Args:
        lane: the lane.
        case: the case.
        timeout: seconds for each step.
    """
    without, together = (_half(lane, case, timeout, patched=patched) for patched in (False, True))
    state = state_of(without["state"], together["state"])
    row = {
        "lane": lane.name,
        "case": case.name,
        "state": CANNOT if state == FAILS and _is_upstream(without, together) else state,
        "without": {name: without[name] for name in ("state", "stage", "problems", "difference", "seconds")},
        "with": together,
        "versions": versions_of(lane),
        "date": time.strftime("%Y-%m-%d"),
    }
    return {**row, "key": key_of(lane, case, row)}


def _half(lane: Lane, case: Case, timeout: float, *, patched: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = {"stage": CAPTURE, "used": [], "seconds": None, "difference": None, "higher_order": []}
        try:
            found |= run_forked(export_step, (lane, case, Path(folder), patched), timeout)
            compared = {} if found["stage"] else run_forked(compare_step, (lane, case, Path(folder)), timeout)
        except NoResultError as error:
            return {**found, "stage": found["stage"] or RUN, "state": FAILS, "problems": [str(error)]}
    problem, changes = found.pop("problem"), found.pop("changes")
    problems = [*([problem] if problem else []), *compared.get("problems", ()), *changes]
    return {
        **found,
        **compared,
        "state": FAILS if found["stage"] else WRONG if problems else WORKS,
        "problems": problems,
    }


def _is_upstream(without: Mapping[str, Any], together: Mapping[str, Any]) -> bool:
    """Say whether the lane itself is what cannot: it stops behind the capture, with nothing in it of our making."""
    return together["stage"] == CONVERT and set(together["higher_order"]) <= set(without["higher_order"])


def versions_of(lane: Lane) -> dict[str, str]:
    """Return the versions of what a result was found with.

    Raises:
        ExportCompatError: something that the lane needs is not installed.
    """
    found = {name: installed_version(name) for name in (*_BASE, *lane.packages)}
    if missing := [name for name, version in found.items() if version is None]:
        raise ExportCompatError(f"lane {lane.name!r} needs {', '.join(missing)}; pip install {' '.join(missing)}")
    # A build of torch for another device, which a local part names, is the same release.
    return {name: version.public for name, version in found.items() if version is not None}


def key_of(lane: Lane, case: Case, row: Mapping[str, Any]) -> str:
    """Return a digest of what a result depends on: the lane, the versions, and all code of ours that it rests on."""
    # Which specs apply does not depend on the tools of a lane.
    versions = {name: row["versions"][name] for name in _BASE}
    code = code_of(case, versions, {"state": row["state"], **_reach(row["with"])}, (*_STEPS, *lane.functions))
    parts = [
        f"lane {lane.name}",
        *(f"{name} {text}" for name, text in (*code.items(), *sorted(row["versions"].items()))),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _reach(half: Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells which patches an export could come to."""
    return {name: half[name] for name in ("used", "modules", "caches") if name in half}
