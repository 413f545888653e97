"""One cell: every case on the installed versions, in processes of their own, with a result file that is resumed."""

import fnmatch
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat._replay import first_line
from exportcompat.registry import ExportCompatError, installed_version

from ._cases import CASES, Case
from ._decoders import Sample
from ._files import write_json
from ._key import key

SCHEMA = 1
TIMEOUT = 300
"""Seconds after which a check has failed."""

_PACKAGES = ("torch", "transformers", "onnx", "onnxscript", "onnxruntime")


def run_cell(folder: Path, patterns: Iterable[str], *, jobs: int, fresh: bool) -> int:
    """Check the cases that match, write a result after each, and print a line for each.

    Args:
        folder: where the file of this cell is.
        patterns: shell patterns of names of cases; all if there is none.
        jobs: number of processes at a time.
        fresh: check again what has a result already.

    Returns:
        0 if each case that exists here works.

    Raises:
        ExportCompatError: no case matches, or the file is not one of ours.
        MissingExtraError: torch, transformers, onnx, onnxscript or onnxruntime is not installed.
    """
    for package in _PACKAGES:
        require(package, "all")
    cases, results = chosen(patterns), Results(folder, versions())
    todo = [case for case in cases if fresh or not results.is_current(case)]
    print(f"{results.path.name}: {len(cases)} cases, {len(cases) - len(todo)} of them known", flush=True)
    for case, row in _checked(todo, jobs):
        results.add(case, row)
        print(_line(case, row), flush=True)
    states = [results.rows[case.name]["state"] for case in cases]
    return 0 if {"native", "patched"} & set(states) and not {"wrong", "fails"} & set(states) else 1


def chosen(patterns: Iterable[str]) -> list[Case]:
    """Return the cases that match a pattern.

    Raises:
        ExportCompatError: a pattern matches no case.
    """
    patterns = list(patterns) or ["*"]
    for pattern in patterns:
        if not fnmatch.filter(CASES, pattern):
            raise ExportCompatError(f"no case matches {pattern!r}; cases: {', '.join(CASES)}")
    return [case for case in CASES.values() if any(fnmatch.fnmatch(case.name, pattern) for pattern in patterns)]


def versions() -> dict[str, str]:
    """Return the installed versions that a result depends on."""
    found = {name: installed_version(name) for name in _PACKAGES}
    return {"python": ".".join(map(str, sys.version_info[:3])), **{name: str(v) for name, v in found.items()}}


class Results:
    """The result file of one cell; it is replaced as a whole after each case.

    Args:
        folder: where the file is.
        found: the versions of the cell.

    Raises:
        ExportCompatError: the file exists, is whole, and is not one of ours.
    """

    def __init__(self, folder: Path, found: dict[str, str]) -> None:
        bare = {name: text.partition("+")[0] for name, text in found.items()}
        self.path = folder / f"transformers-{bare['transformers']}_torch-{bare['torch']}.json"
        self.versions = found
        self.rows: dict[str, dict[str, Any]] = self._read()

    def is_current(self, case: Case) -> bool:
        """Say whether there is a result, and all that it depends on is as it was."""
        row = self.rows.get(case.name)
        return row is not None and row.get("key") == key(case, self.versions, row)

    def add(self, case: Case, row: dict[str, Any]) -> None:
        """Add a result and write the file."""
        self.rows[case.name] = {**row, "key": key(case, self.versions, row), "date": time.strftime("%Y-%m-%d")}
        content = {"schema": SCHEMA, "versions": self.versions, "cases": dict(sorted(self.rows.items()))}
        write_json(self.path, content)

    def _read(self) -> dict[str, dict[str, Any]]:
        if not self.path.exists():
            return {}
        try:
            content = json.loads(self.path.read_text("utf-8"))
        except ValueError:
            # A half-written file is no result; every case is checked again.
            return {}
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise ExportCompatError(f"{self.path} is no result file of schema {SCHEMA}; move it away and run again")
        cases: dict[str, dict[str, Any]] = content["cases"]
        return cases


def _checked(cases: list[Case], jobs: int) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Yield each case with its result, as they end."""
    queue, running = list(cases), list[_Job]()
    _preload()
    try:
        while queue or running:
            while queue and len(running) < jobs:
                running.append(_Job(queue.pop(0)))
            time.sleep(0.05)
            for job in [job for job in running if job.is_over()]:
                running.remove(job)
                yield job.case, job.result()
    finally:
        for job in running:
            job.stop()


def _preload() -> None:
    """Import what every case needs before the processes are forked, so that none of them has to."""
    for name in ("torch.onnx", "torch.export", "transformers", "onnxscript"):
        require(name, "all")


@dataclass
class _Job:
    """One case in a process of its own."""

    case: Case

    def __post_init__(self) -> None:
        methods = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(self.case.name, sender), daemon=True)
        self._end = time.monotonic() + TIMEOUT
        self._row: dict[str, Any] | None = None
        self._process.start()
        sender.close()

    def is_over(self) -> bool:
        """Say whether there is a result, or there will be none."""
        if self._receiver.poll():
            try:
                self._row = self._receiver.recv()
            except EOFError:
                self._process.join()
            return True
        return time.monotonic() > self._end

    def result(self) -> dict[str, Any]:
        """Return the row; the process is gone afterwards."""
        status = self._process.exitcode
        self.stop()
        if self._row is not None:
            return self._row
        if status is None:
            return _broken(f"no outcome after {TIMEOUT} s")
        reason = signal.Signals(-status).name if status < 0 else f"status {status}"
        return _broken(f"the process ended with {reason}")

    def stop(self) -> None:
        """End the process."""
        self._process.join(timeout=1 if self._row else 0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._receiver.close()


def _broken(problem: str) -> dict[str, Any]:
    return {"state": "fails", "problems": [problem]}


def _work(name: str, sender: Any) -> None:
    """Check a case and send the row; what the exporters print goes nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    import torch

    torch.set_num_threads(1)
    try:
        sender.send(both(CASES[name]))
    except Exception as error:
        # A model that cannot be built or called here is a result too.
        sender.send(_broken(first_line(error)))


def both(case: Case) -> dict[str, Any]:
    """Check a case without and with patches; return the row of a result file."""
    from ._check import check, quiet

    if not case.exists():
        return {"state": "absent", "problems": []}
    with quiet():
        try:
            case.decoder()
        except Exception as error:
            # This release cannot make the model itself; what it says is the reason.
            return {"state": "unsupported", "problems": [first_line(error)]}
        plain = check(case, Sample(), patched=False)
        patched = check(case, Sample())
    state = "native" if plain.state == "works" else "patched" if patched.state == "works" else patched.state
    if plain.state == "works" and patched.state != "works":
        # Harm is worse than no help.
        state = patched.state
    row = {name: value for name, value in patched.to_dict().items() if name not in ("case", "state")}
    row["problems"] = row["problems"][:3]
    return {"state": state, "plain": plain.state, "plain_problem": "".join(plain.problems[:1]), **row}


def _line(case: Case, row: dict[str, Any]) -> str:
    notes = "; ".join(row["problems"])[:150]
    return f"{row['state']:8} {case.name:24} {row.get('seconds', 0):5.1f} s  {notes}"
