"""What is said while a command runs: progress on standard error, warnings of ours alone."""

import importlib
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from ._pace import Pace

_LOUD = ("torch", "transformers", "onnx", "onnxscript", "onnxruntime", "numpy", "huggingface_hub", "onnx_ir")
"""Packages whose warnings a user of the command cannot act on."""
_PRINTING = ("torch.export._trace", "torch.fx.graph_module")
"""Modules that print the graph so far, hundreds of lines, before they raise an error."""
_TICK = {True: 0.5, False: 15.0}
"""Seconds between two lines of progress, in a terminal and in a log."""


class Talk:
    """Prints a line for each stage, and meanwhile what is done of it, how long it took and will take.

    In a terminal the line is written anew; elsewhere another one is printed now and then.

    Args:
        is_quiet: print nothing.
        out: where to; None for standard error.
    """

    def __init__(self, *, is_quiet: bool = False, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._is_quiet = is_quiet
        self._is_terminal = self._out.isatty()
        self._lock = threading.Lock()
        self._begin, self._pace = time.monotonic(), Pace()
        self._stage = ""
        self._width = 0
        self._ended = threading.Event()

    def __call__(self, line: str) -> None:
        """Print a line of progress; `stage ...` begins a stage, `stage: 1.2 s` ends it."""
        with self._lock:
            self._clear()
            self._stage = line.removesuffix(" ...") if line.endswith(" ...") else ""
            self._pace.begin()
            if not self._is_quiet:
                print(line, file=self._out, flush=True)

    @property
    def stage(self) -> str:
        """The stage that has begun and not ended."""
        return self._stage

    def count(self, what: str, done: int, total: int = 0) -> None:
        """Note how much is done of the stage, such as 3 of 32 layers; it is printed at the next tick."""
        self._pace.note(what, done, total)

    @contextmanager
    def ticking(self) -> Iterator["Talk"]:
        """Print what is done again and again, from a thread, inside a `with`."""
        thread = threading.Thread(target=self._tick, daemon=True)
        if not self._is_quiet:
            thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            with self._lock:
                self._clear()

    def _tick(self) -> None:
        while not self._ended.wait(_TICK[self._is_terminal]):
            with self._lock:
                line = self.status()
                if line and not self._ended.is_set():
                    self._print(line)

    def status(self) -> str:
        """Return the stage, what is done of it, and times in words; empty between stages."""
        if not self._stage:
            return ""
        pace, left = self._pace, self._pace.left()
        done = f"{pace.done}{f' of {pace.total}' if pace.total else ''} {pace.what}, " if pace.what else ""
        rest = "" if left is None else f", about {_time(left)} left"
        return f"  {self._stage}: {done}{_time(time.monotonic() - self._begin)} since the start{rest}"

    def _print(self, line: str) -> None:
        if self._is_terminal:
            self._out.write("\r" + line[:100].ljust(self._width))
            self._width = len(line[:100])
            self._out.flush()
        else:
            print(line, file=self._out, flush=True)

    def _clear(self) -> None:
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()
            self._width = 0


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextmanager
def calm(*, is_verbose: bool) -> Iterator[None]:
    """Keep back what torch, transformers and others say, inside a `with`; our own warnings are one line each.

    Args:
        is_verbose: keep nothing back.
    """
    if is_verbose:
        yield
        return
    with warnings.catch_warnings(), _silent_logging(), _silent_printing():
        warnings.simplefilter("default")
        warnings.showwarning = _show  # type: ignore[assignment]
        yield


def _show(message: Any, category: Any, filename: str, lineno: int, *others: Any) -> None:
    parts = filename.replace("\\", "/").split("/")
    is_foreign = any(f"{name}" in parts for name in _LOUD) and "exportcompat" not in parts
    if is_foreign or issubclass(category, (FutureWarning, DeprecationWarning, PendingDeprecationWarning)):
        return
    if "axis name" not in str(message):
        print(f"exportcompat: warning: {message}", file=sys.stderr, flush=True)


@contextmanager
def _silent_printing() -> Iterator[None]:
    """Have modules print nothing, inside a `with`: a global of theirs hides the built-in function."""
    found = []
    for name in _PRINTING:
        # Without torch there is nothing to keep back, and other code says that it is missing.
        with suppress(ImportError):
            found.append(importlib.import_module(name))
    for module in found:
        vars(module)["print"] = _silent
    try:
        yield
    finally:
        for module in found:
            vars(module).pop("print", None)


def _silent(*args: Any, **kwargs: Any) -> None:
    """Take what `print` takes."""


@contextmanager
def _silent_logging() -> Iterator[None]:
    """Let loggers of the packages say errors alone, without bars; they are as before afterwards."""
    import logging

    loggers = [logging.getLogger(name) for name in _LOUD]
    levels = [logger.level for logger in loggers]
    bars: Any = None
    with suppress(ImportError, AttributeError):
        import transformers

        bars = transformers.utils.logging
        was_active = bars.is_progress_bar_enabled()
        bars.disable_progress_bar()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if bars is not None and was_active:
            bars.enable_progress_bar()
