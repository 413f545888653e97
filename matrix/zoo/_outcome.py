"""Export one model of the zoo as a user would, and say what came of it."""

import re
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from exportcompat._exporter import Exported, export, export_plainly
from exportcompat._extras import require
from exportcompat._observer import runs_generate
from exportcompat._verification import Discrepancies, Discrepancy
from exportcompat.registry import ExportCompatError

from ._build import Built, NotBuiltError, build
from ._catalogue import Entry

RIGHT, WRONG, REFUSED, FAILS = "right", "wrong", "refused", "fails"
NOT_BUILT, NOT_RUN, SMALL = "not built", "upstream cannot run", "too small to tell"
OUTCOMES = (RIGHT, WRONG, REFUSED, FAILS, SMALL, NOT_RUN, NOT_BUILT)

_SMALL = "too small to tell"
_GENERATION = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "use_cache": True}
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_ADVICE = re.compile(
    r"\(Refer to the full stack trace|The error above occurred when calling|For more information, run with TORCH_LOGS"
    r"|consider using data-dependent friendly|While executing %"
)
"""Where torch stops saying what was wrong, and says what could be done about it."""
_FOLDER = re.compile(r"[^\s('\"]*/site-packages/")
"""Where packages are installed, which is of one machine."""
_LONGEST = 600
"""Characters of a reason."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a model.

    Attributes:
        name: task and type.
        architecture: the class.
        outcome: one of `OUTCOMES`.
        reason: why it is not right; empty if it is.
        difference: largest absolute difference; None if nothing was compared.
        calls: how many were compared.
        seconds: of the processor, for the export with its comparison: what other programs do does not count.
        width: the rules by which the model is small.
        parameters: how many it has.
        used: ids of the specs that were called.
        plain: the outcome of a plain `torch.onnx.export` of the same; empty where ours is right, and in half precision.
        no_cache: why the file of a model that generates has no cache; empty for one that has, and for other models.
    """

    name: str
    architecture: str
    outcome: str
    reason: str = ""
    difference: float | None = None
    calls: int = 0
    seconds: float = 0.0
    width: str = ""
    parameters: int = 0
    used: Sequence[str] = field(default_factory=list)
    plain: str = ""
    no_cache: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def outcome_of(entry: Entry, dtype: str | None = None) -> Outcome:
    """Build a model, export it by one call, in half precision if a type is given, and compare it with eager."""
    base: dict[str, Any] = {"name": entry.name, "architecture": entry.architecture}
    warnings.simplefilter("ignore")
    try:
        built = build(entry)
    except NotBuiltError as error:
        return Outcome(**base, outcome=NOT_BUILT, reason=str(error)[:_LONGEST])
    facts: dict[str, Any] = {**base, "width": built.width, "parameters": built.parameters}
    if error_text := _generation_error(built):
        return Outcome(**facts, outcome=NOT_RUN, reason=error_text)
    begin = time.process_time()
    found = {**facts, **_exported(built, lambda folder: export(built.model, _inputs(built), folder, dtype=dtype))}
    seconds = round(time.process_time() - begin, 1)
    is_bad = found["outcome"] in {WRONG, REFUSED, FAILS} and not dtype
    plain = _exported(built, lambda folder: export_plainly(built.model, _inputs(built), folder)) if is_bad else {}
    return Outcome(**found, seconds=seconds, plain=plain.get("outcome", ""))


def _inputs(built: Built) -> Any:
    return built.calls if len(built.calls) > 1 else built.calls[0]


def _generation_error(built: Built) -> str:
    """Return why `generate` of upstream does not run; empty if it does, or if the model has none."""
    torch, model = require("torch", "torch"), built.model
    if not runs_generate(model, built.calls):
        return ""
    try:
        with torch.no_grad():
            for call in built.calls:
                model.generate(**{**call, **_GENERATION})
    except Exception as error:
        # Any class: it is upstream's own.
        return _told("generate", error)
    return ""


def _exported(built: Built, make: Callable[[Path], Exported]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = make(Path(folder))
        except ExportCompatError as error:
            return {"outcome": REFUSED, "reason": _told("", error)}
        except Exception as error:
            # What torch and onnxscript raise for what they cannot export.
            return {"outcome": FAILS, "reason": _told("", error)}
        return {**_judged(made.discrepancies), "used": list(made.report.used), "no_cache": made.no_cache}


def _told(where: str, error: Exception) -> str:
    cause = error.__cause__
    if isinstance(cause, Exception) and type(error).__name__ == "PassError":
        # Of a pass that fails, the message has the address alone.
        return _told(where, cause)
    words = " ".join(_COLOR.sub("", str(error)).split()).rpartition("## Exception summary ")[2]
    begin = f"{where}: " if where else ""
    return f"{begin}{type(error).__name__}: {_short(_ADVICE.split(words)[0].strip() or words)}"


def _short(words: str) -> str:
    """Return a message whose middle is left out: torch says what it did first, and what was wrong last."""
    half, words = _LONGEST // 2, _FOLDER.sub("", words)
    return words if len(words) <= _LONGEST else f"{words[:half]} ... {words[-half:]}"


def _judged(found: Discrepancies | None) -> dict[str, Any]:
    rows = list(found or [])
    worst = max((row.absolute for row in rows if row.absolute != float("inf")), default=None)
    fields: dict[str, Any] = {"difference": worst, "calls": len(rows)}
    failed = sorted((row for row in rows if not row.success), key=_weight)
    if rows and not failed:
        return {**fields, "outcome": RIGHT}
    is_small = bool(failed) and all(row.error.startswith(_SMALL) for row in failed)
    reason = f"{len(failed)} of {len(rows)} calls: {_short(str(failed[0]))}" if failed else "nothing was compared"
    return {**fields, "outcome": SMALL if is_small else WRONG, "reason": reason}


def _weight(row: Discrepancy) -> tuple[bool, float]:
    """Return what a call comes first by: those with numbers, the worst of them."""
    return bool(row.error), -row.absolute
