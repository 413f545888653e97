"""`Lane`: a way to export a model and to run the result."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exportcompat._verification import Discrepancy, Program
from exportcompat.matrix.cases import Case

Compare = Callable[[Case, Any], list[Discrepancy]]


def compare_as_case(case: Case, program: Program) -> list[Discrepancy]:
    """Compare a program with eager as the file of ONNX is compared: every length, batches of 1 and 3, padding."""
    return case.compare(program, case.decoder)


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A way to export and to run the result.

    Attributes:
        name: its name in results and on the command line.
        title: what it is, for people.
        capture: makes what `torch.export` or the exporter itself captures, given a decoder or a `Forward`. What fails
            here is a matter of the model and of the patches.
        convert: writes the result into a folder, given what was captured, and the decoder. What fails here is a matter
            of the lane's own tools.
        load: opens the result in a process that has exported nothing.
        compare: compares the result with eager.
        packages: distributions that it needs beside torch and transformers; their versions are in the key of a result.
        cases: the names of the cases that it is tried with.
        how_dynamic: what a result takes, for people.
        snippet: the lines that a user writes.
        notes: what there is to say besides, as Markdown.
    """

    name: str
    title: str
    capture: Callable[[Any], Any]
    convert: Callable[[Any, Any, Path], None]
    load: Callable[[Path], Any]
    compare: Compare = compare_as_case
    packages: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    how_dynamic: str = ""
    snippet: str = ""
    notes: str = ""

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that it is made of, as `module:function`."""
        made_of = (self.capture, self.convert, self.load, self.compare)
        return tuple(f"{item.__module__}:{item.__qualname__}" for item in made_of)
