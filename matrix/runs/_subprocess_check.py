"""Modules run in processes of their own: a crash, a hang or a leak of one loses no other."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

TIMEOUT = 600
"""Seconds after which a check has failed."""


class NoResultError(Exception):
    """A process ended, or was ended, before it said anything."""


def run_check(case: str, *, patched: bool, python: str = sys.executable, exclude: Iterable[str] = ()) -> dict[str, Any]:
    """Run `python -m exportcompat.matrix check` and return the fields of its `Outcome`."""
    arguments = ["exportcompat.matrix", "check", case]
    arguments += [argument for spec_id in exclude for argument in ("--exclude", spec_id)]
    try:
        return run_module(arguments if patched else [*arguments, "--plain"], python=python)
    except NoResultError as error:
        return _broken(case, str(error))


def run_module(arguments: Sequence[str], *, python: str = sys.executable, timeout: float = TIMEOUT) -> dict[str, Any]:
    """Run a module with arguments, and return the last line that it prints, which is JSON.

    Raises:
        NoResultError: there is no such line, or none in time.
    """
    try:
        done = subprocess.run(
            [python, "-W", "ignore", "-m", *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            # The folders of a source tree must not hide what is installed; Python 3.10 has no option for it.
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoResultError(f"no outcome after {timeout:g} s") from None
    return _parse(done)


def _parse(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    lines = done.stdout.strip().splitlines()
    try:
        outcome: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        errors = done.stderr.strip().splitlines() or ["no message"]
        raise NoResultError(f"the process ended with status {done.returncode}: {errors[-1]}") from None
    return outcome


def _broken(case: str, problem: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"difference": None, "calls": 0, "seconds": 0.0, "used": []}
    return {"case": case, "state": "fails", "problems": [problem], **fields}
