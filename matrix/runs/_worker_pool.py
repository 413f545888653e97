"""Cases in processes of their own: a crash, a hang or a leak of one is its result, and loses no other."""

import gc
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat._observer import first_line
from exportcompat.matrix.cases import CASES, Case
from exportcompat.matrix.checks import ablate, broken, captured, check_with_content, proved

_MEGABYTE = 1 << 20
_WAIT = 0.05


@dataclass(frozen=True)
class Limits:
    """What one case may take.

    Attributes:
        seconds: time.
        megabytes: resident memory.
    """

    seconds: float = 300
    megabytes: int = 6_000


USUAL = Limits()

Work = tuple[Case, str]
"""What is done in a process: the row of a case, one of its proofs, as `ablate` takes it, or its `CAPTURES`."""

CAPTURES = "captures alone"
"""In the place of a proof: no file is made; see `checks.captured`."""


def run_jobs(work: Sequence[Work], jobs: int, limits: Limits) -> Iterator[tuple[Work, dict[str, Any]]]:
    """Yield each piece of work with its result, as they end.

    Args:
        work: what to check; an empty proof stands for the row.
        jobs: number of processes at a time.
        limits: what ends a process.

    Raises:
        SystemExit: whoever started this process is gone; what still runs would write beside its successor.
    """
    queue, running, parent = list(work), list[_Job](), os.getppid()
    if queue:
        _preload()
    try:
        while queue or running:
            while queue and len(running) < jobs:
                running.append(_Job(queue.pop(0), limits))
            time.sleep(_WAIT)
            if os.getppid() != parent:
                raise SystemExit("the process that started this one has ended")
            for job in [job for job in running if job.is_over()]:
                running.remove(job)
                yield job.work, job.result()
    finally:
        for job in running:
            job.stop()


def _preload() -> None:
    """Import and warm what every case needs before the processes are forked, so that none of them has to."""
    import torch

    for name in ("torch.export", "torch.onnx", "onnxruntime", "onnxscript", "transformers.models.auto.modeling_auto"):
        require(name, "all")
    # A process that is forked from one with threads hangs where it wants threads of its own.
    torch.set_num_threads(1)
    # What these versions cannot do, the cases will say.
    with tempfile.TemporaryDirectory() as folder, _silent(), suppress(Exception):
        model = torch.nn.Linear(2, 2).eval()
        torch.onnx.export(model, (torch.ones(2, 2),), str(Path(folder) / "warm.onnx"), dynamo=True)
    # What is alive now stays so: the collections of the cases need not look through it.
    gc.collect()
    gc.freeze()


@contextmanager
def _silent() -> Iterator[None]:
    """Send what this process prints nowhere for a while."""
    kept = [os.dup(number) for number in (1, 2)]
    _silence()
    try:
        yield
    finally:
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _silence() -> None:
    """Send what this process prints nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(null, number)
    os.close(null)


# Two jobs are not the same where their work is: the one that is over is taken out of those that run.
@dataclass(eq=False)
class _Job:
    """One piece of work in a process of its own."""

    work: Work
    limits: Limits

    def __post_init__(self) -> None:
        methods = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(self.work[0].name, self.work[1], sender), daemon=True)
        self._end = time.monotonic() + self.limits.seconds
        self._row: dict[str, Any] | None = None
        self._peak = 0
        self._process.start()
        self._memory = _meter(self._process.pid)
        sender.close()

    def is_over(self) -> bool:
        """Say whether there is a result, or there will be none."""
        if self._receiver.poll():
            try:
                self._row = self._receiver.recv()
            except EOFError:
                self._process.join()
            return True
        self._peak = max(self._peak, self._memory())
        return self._peak > self.limits.megabytes or time.monotonic() > self._end

    def result(self) -> dict[str, Any]:
        """Return the row; the process is gone afterwards."""
        status = self._process.exitcode
        self.stop()
        if self.work[1] == CAPTURES:
            return {**(self._row or {}), "megabytes": self._peak}
        if self.work[1]:
            # Torch may take for ever to refuse what a spec is for.
            return self._row or proved("fails", problem=self._reason(status))
        row = broken(self._reason(status)) if self._row is None else self._row
        return {**row, "megabytes": self._peak}

    def _reason(self, status: int | None) -> str:
        if status is None and self._peak > self.limits.megabytes:
            return f"more than {self.limits.megabytes} MB of memory"
        if status is None:
            return f"no outcome after {self.limits.seconds:g} s"
        return f"the process ended with {signal.Signals(-status).name if status < 0 else f'status {status}'}"

    def stop(self) -> None:
        """End the process."""
        self._process.join(timeout=1 if self._row else 0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._receiver.close()


def _meter(pid: int) -> Callable[[], int]:
    """Return a function that says how many megabytes a process has in memory; 0 once it has ended."""
    psutil: Any = require("psutil", "all")

    def megabytes() -> int:
        try:
            return int(psutil.Process(pid).memory_info().rss // _MEGABYTE)
        except psutil.Error:
            return 0

    return megabytes


def _work(name: str, proof: str, sender: Any) -> None:
    """Check a case and send what came out; what the exporters print goes nowhere."""
    _silence()
    import torch

    torch.set_num_threads(1)
    # The process ends before its garbage fills much, and collects it between its exports. In the middle of one that
    # only takes time, a twentieth of all.
    gc.disable()
    try:
        row = _done(CASES[name], proof)
    except Exception as error:
        # A model that cannot be called here is a result too.
        problem = first_line(error)
        row = {} if proof == CAPTURES else proved("fails", "fails", problem) if proof else broken(problem)
    sender.send(row)


def _done(case: Case, proof: str) -> dict[str, Any]:
    if proof == CAPTURES:
        return captured(case)
    return ablate(case, proof) if proof else check_with_content(case)
