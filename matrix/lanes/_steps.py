"""The two steps of a result, each in a process of its own: export, and compare what was written with eager."""

import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exportcompat import PatchReport, apply_patches
from exportcompat._observer import first_line
from exportcompat.matrix.cases import Case, interface_of, pytree_specs
from exportcompat.matrix.checks import Snapshot, cache_classes, loaded_models, quiet

from ._lane import Lane

CAPTURE, CONVERT, RUN = "capture", "convert", "run"
"""Where an export may stop: in what captures the model, in the lane's own tools, and when the result is called."""

_SHOWN = 3
"""Problems that a result keeps."""


def export_step(lane: Lane, case: Case, folder: Path, patched: bool) -> dict[str, Any]:
    """Export a case into a folder.

    Without patches caches are taken apart all the same, by our pytree nodes: every exporter has some of its own.

    Returns:
        `stage`, where it stopped, and `problem`, both empty where it did not; `changes`, what is not as it was;
        `seconds`; `used`, the ids of the specs that were called; `higher_order`, the higher-order operators of what was
        captured; the `modules` of models that were loaded, the classes of the `caches`.
    """
    with quiet():
        subject, state = case.decoder(), Snapshot()
        state.note_model(subject)
        begin, told = time.perf_counter(), dict[str, Any](stage=CAPTURE, problem="", higher_order=[])
        scope = apply_patches(exclude=case.exclude) if patched else apply_patches(include=pytree_specs())
        with scope as report:
            caches = cache_classes(subject.cache(1, 1))
            # Before the capture, which may leave something on the model.
            interface_of(subject).write(folder)
            _export(lane, subject, folder, told)
        seconds = round(time.perf_counter() - begin, 1)
        changes = state.changes(subject)
    used = _used(report) if patched else []
    return {
        **told,
        "changes": changes,
        "seconds": seconds,
        "used": used,
        "modules": loaded_models(),
        "caches": sorted(caches),
    }


def _export(lane: Lane, subject: Any, folder: Path, told: dict[str, Any]) -> None:
    """Capture and convert, and write down where it stops, if it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = lane.capture(subject)
            told["stage"], told["higher_order"] = CONVERT, higher_order(program)
            lane.convert(program, subject, folder)
        told["stage"] = ""
    except Exception as error:
        # Any class: these are the tools of others.
        told["problem"] = first_line(error)


def _used(report: PatchReport) -> list[str]:
    return list(report.used)


def compare_step(lane: Lane, case: Case, folder: Path) -> dict[str, Any]:
    """Run what was exported, and compare it with eager.

    Returns:
        `problems`, the worst first, empty if it works; `difference`, the largest absolute one; the number of `calls`.
    """
    with quiet():
        try:
            rows = lane.compare(case, lane.load(folder))
        except Exception as error:
            # What a runtime refuses was exported all the same, and is not right.
            return {"problems": [f"{RUN}: {first_line(error)}"], "difference": None, "calls": 0}
    wrong = sorted((row for row in rows if not row.success), key=lambda row: -row.absolute)
    largest = max((row.absolute for row in rows), default=math.inf)
    problems = [str(row) for row in wrong[:_SHOWN]] if rows else ["nothing was compared"]
    return {"problems": problems, "difference": largest if math.isfinite(largest) else None, "calls": len(rows)}


def higher_order(program: Any) -> list[str]:
    """Return the names of the higher-order operators of an exported program, those of inner graphs too; sorted.

    `wrap_with_set_grad_enabled` and the like, which only say in what mode a part is run, do not count: torch dissolves
    them when it lowers a program.
    """
    return sorted({name for name in _operators(program) if not name.startswith("wrap_with_")})


def _operators(program: Any) -> Iterator[str]:
    import torch

    for module in getattr(program, "graph_module", torch.nn.Module()).modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            if isinstance(node.target, torch._ops.HigherOrderOperator):
                yield node.target.name()
