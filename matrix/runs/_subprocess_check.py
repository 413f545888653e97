"""Checks in processes of their own: a crash, a hang or a leak of one loses no other."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

TIMEOUT = 600
"""Seconds after which a check has failed."""


def run_check(case: str, *, patched: bool, python: str = sys.executable, exclude: Iterable[str] = ()) -> dict[str, Any]:
    """Run `python -m exportcompat.matrix check` and return the fields of its `Outcome`."""
    command = [python, "-W", "ignore", "-m", "exportcompat.matrix", "check", case]
    command += [argument for spec_id in exclude for argument in ("--exclude", spec_id)]
    try:
        done = subprocess.run(
            command if patched else [*command, "--plain"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            # The folders of a source tree must not hide what is installed; Python 3.10 has no option for it.
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _broken(case, f"no outcome after {TIMEOUT} s")
    return _parse(case, done)


def _parse(case: str, done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    lines = done.stdout.strip().splitlines()
    try:
        outcome: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        errors = done.stderr.strip().splitlines() or ["no message"]
        return _broken(case, f"the process ended with status {done.returncode}: {errors[-1]}")
    return outcome


def _broken(case: str, problem: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"difference": None, "calls": 0, "seconds": 0.0, "used": []}
    return {"case": case, "state": "fails", "problems": [problem], **fields}
