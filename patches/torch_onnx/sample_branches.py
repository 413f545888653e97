"""A branch on data goes as it does for the sample where torch's exporter has fallen back on another capture.

Symptom: `if x.sum() > 0:` exports, and the file has one side of it, for any data; nothing says so. From torch 2.9 on
the export fails.
Cause: where `torch.export` cannot capture a model, the exporter of torch 2.6 and 2.7 traces it with `torch.jit`, and
that of 2.8 takes a draft, which answers such questions by the data of the sample.
What is done: the questions are told to the open scopes, with their lines: those that `torch.jit` warns of, or that the
report of the draft names.
Can go: with torch 2.8.
"""

import ast
import linecache
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from exportcompat.patches.toolkit.records import variants
from exportcompat.registry import Assumption, tell_assumptions

_QUESTIONS = ("Converting a tensor to a Python", "Iterating over a tensor", "Using len")


def patch_trace(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the capture by `torch.jit` tell what it has answered by the sample."""

    def _capture(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _traced() as questions:
            program = original(self, *args, **kwargs)
        _tell((item.filename, item.lineno, _function(item.filename, item.lineno)) for item in questions)
        return program

    return _capture


def patch_draft(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the capture of a draft tell what it has answered by the sample."""

    def _capture(self: Any, *args: Any, **kwargs: Any) -> Any:
        from torch._logging.structured import INTERN_TABLE

        program = original(self, *args, **kwargs)
        # Frames have numbers for the names of files.
        names = {number: name for name, number in INTERN_TABLE.items()}
        failures = [item for item in program._report.failures if item.failure_type.name == "DATA_DEPENDENT_ERROR"]
        frames = [item.data["user_stack"][-1] for item in failures if item.data["user_stack"]]
        _tell((names.get(frame["filename"], "?"), frame["line"], frame["name"]) for frame in frames)
        return program

    return _capture


@contextmanager
def _traced() -> Iterator[list[warnings.WarningMessage]]:
    """Yield a list that has in the end the questions of a trace; its other warnings are given as ever."""
    import torch

    questions: list[warnings.WarningMessage] = []
    given: Sequence[warnings.WarningMessage] = ()
    try:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always", torch.jit.TracerWarning)
            yield questions
    finally:
        for item in given:
            if issubclass(item.category, torch.jit.TracerWarning) and str(item.message).startswith(_QUESTIONS):
                questions.append(item)
            else:
                warnings.warn_explicit(item.message, item.category, item.filename, item.lineno)


def _tell(places: Iterable[tuple[str, int, str]]) -> None:
    """Tell the open scopes of questions, each by its file, line and function."""
    tell_assumptions(
        [
            Assumption(
                condition="this question about data has the answer that it has for the sample",
                kind="branch",
                file=file,
                line=line,
                function=function,
                source=linecache.getline(file, line).strip(),
            )
            for file, line, function in places
        ]
    )


def _function(file: str, line: int) -> str:
    """Return the name of the innermost function around a line."""
    names = [item.name for item in _functions(file) if item.lineno <= line <= (item.end_lineno or 0)]
    return names[-1] if names else "forward"


@lru_cache(maxsize=8)
def _functions(file: str) -> list[ast.FunctionDef]:
    """Return the functions of a file, those within others behind them; a trace asks by many lines of one file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


_STRATEGIES = "torch.onnx._internal.exporter._capture_strategies"

SPECS = variants(
    {
        "id": "torch-onnx-sample-branches",
        "reason": "A branch on data goes as it does for the sample, and nothing says so: silently wrong.",
        "upstream": (
            "https://github.com/pytorch/pytorch/blob/v2.8.0/torch/onnx/_internal/exporter/_capture_strategies.py",
        ),
        "kind": "wrap",
    },
    {
        "torch>=2.6,<2.8": {
            "targets": (f"{_STRATEGIES}:JitTraceConvertStrategy._capture",),
            "replacement": f"{__name__}:patch_trace",
        },
        "torch>=2.8,<2.9": {
            "targets": (f"{_STRATEGIES}:TorchExportDraftExportStrategy._capture",),
            "replacement": f"{__name__}:patch_draft",
        },
    },
)
