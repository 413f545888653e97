"""What a file is right for: `exportcompat verify` on it, for every call and then for fewer."""

import contextlib
import io
import json
import math
import runpy
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ._makers import EVERYTHING
from ._models import TASK

Options = tuple[str, ...]

CONTRACTS: tuple[Options, ...] = (
    EVERYTHING,
    ("--no-padding",),
    ("--no-chunks",),
    ("--no-padding", "--no-chunks"),
    ("--no-padding", "--batch", "1"),
    ("--no-padding", "--batch", "1", "--no-chunks"),
)
"""The contracts by the options of `exportcompat verify`, none before one that it is a part of."""

RIGHT, WRONG, STOPS, UNREADABLE = "right", "wrong", "stops", "unreadable"
"""The words for a file within a contract: it differs from eager, ONNX Runtime refuses calls, it cannot be compared."""

_REFUSED = "ONNX Runtime: "
_SHOWN = 300


def is_within(narrow: Options, wide: Options) -> bool:
    """Say whether every call of a contract is one of another, too."""
    return set(wide) <= set(narrow)


def verdicts(file: Path, model: Path) -> list[dict[str, Any]]:
    """Return what came of each contract, widest first; one that lies within a contract that holds is left out.

    A file that cannot be compared at all has one verdict.
    """
    found: list[dict[str, Any]] = []
    for options in CONTRACTS:
        right = [tuple(item["options"]) for item in found if item["verdict"] == RIGHT]
        if not any(is_within(options, wide) for wide in right):
            found.append(verdict(file, model, options))
        if found[-1]["verdict"] == UNREADABLE:
            break
    return found


def verdict(file: Path, model: Path, options: Options) -> dict[str, Any]:
    """Return what `exportcompat verify` says of a file with some options."""
    arguments = ["verify", str(file), "--model", str(model), "--task", TASK, *options, "--quiet", "--json"]
    status, printed, said = _command(arguments)
    if status not in (0, 1):
        said = said.replace(f"{file.parent}/", "").replace(f"{model.parent}/", "")
        return {"options": list(options), "verdict": UNREADABLE, "error": _short(said)}
    return {"options": list(options), **judged(json.loads(printed))}


def _command(arguments: list[str]) -> tuple[int, str, str]:
    """Run `python -m exportcompat` in this process, which has imported torch; return its status, output and errors."""
    out, errors = io.StringIO(), io.StringIO()
    sys.argv = ["exportcompat", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            runpy.run_module("exportcompat", run_name="__main__")
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
    return status, out.getvalue(), errors.getvalue()


def judged(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict on what `exportcompat verify --json` has printed.

    Calls that ONNX Runtime refuses are told from those whose numbers are wrong: an error is better than a wrong text.
    """
    calls = document["calls"]
    failed = [call for call in calls if not call["success"]]
    wrong = [call for call in failed if not call["error"].startswith(_REFUSED)]
    refused = [call["error"].removeprefix(_REFUSED) for call in failed if call["error"].startswith(_REFUSED)]
    return {
        "verdict": RIGHT if document["success"] else WRONG if wrong or not calls else STOPS,
        "calls": len(calls),
        "wrong": len(wrong),
        "refused": len(refused),
        "difference": _largest(call["absolute"] for call in calls if not call["error"]),
        "error": _short(next(iter([*refused, *(call["error"] for call in wrong if call["error"])]), "")),
    }


def _largest(values: Iterable[float | None]) -> float | None:
    """Return the largest difference that is a number; JSON has none that is infinite."""
    found = [value for value in values if value is not None and math.isfinite(value)]
    return max(found, default=None)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]} ..."


def widest(found: Iterable[Mapping[str, Any]]) -> Iterator[Options]:
    """Yield the contracts that a file is right for, none within another."""
    yield from (tuple(item["options"]) for item in found if item["verdict"] == RIGHT)


def is_kept(promise: Options, found: Iterable[Mapping[str, Any]]) -> bool:
    """Say whether a file is right for a contract, or for one that has all its calls."""
    return any(is_within(promise, options) for options in widest(found))
