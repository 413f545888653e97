"""What a result rests on besides our own code, by content: the programs that were captured, and what eager answers.

Where both are the same on two releases of transformers, so is the file, and what it is compared with. Then the result
of one is the result of the other, and costs the captures alone.
"""

import functools
import gc
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from exportcompat._verification import Discrepancy, Program
from exportcompat.matrix.cases import Case, Sample

from ._check import Outcome, check, export, quiet
from ._program_digest import digest_of, program_digest, value_digest
from ._reference import reference_digest
from ._row import caches_of, check_case, loaded_models

DIGESTS = (
    f"{__package__}._program_digest:program_digest",
    f"{__package__}._reference:reference_digest",
    f"{__package__}._content:Exports",
)
"""What makes digests, as `"module:function"`: those of other code say nothing of each other."""

_BY_CALLS = (
    "_comparisons:compare_decoder",
    "_comparisons:compare_beyond",
    "_comparisons:compare_unpadded",
    "_forward:compare_calls",
    "_conversations:compare_media",
)
"""Comparisons that take what stands for a file; the others load the file themselves, or observe `generate`."""


def has_content(case: Case) -> bool:
    """Say whether the result of a case can rest on content: it is one capture and the usual calls.

    A case that goes by `exportcompat.export` has captures that depend on each other and looks at guards, TorchScript
    has no program, and `torch.export` keeps what the exporter of ONNX removes: these are always run.
    """
    return case.write is None and case.is_captured and getattr(case.compare, "function", "").endswith(_BY_CALLS)


def check_with_content(case: Case) -> dict[str, Any]:
    """Return the row of a case, as `check_case` does, with its `content` where it has one."""
    if not has_content(case):
        return check_case(case)
    exports = Exports(case)
    row = check_case(exports.case)
    return {**row, **_content(case, exports)} if "plain" in row else row


def captured(case: Case) -> dict[str, Any]:
    """Return what the captures of a case and its eager calls say, without making a file.

    Returns:
        `content`, and what a row has of the captures: `applied`, `used`, `modules`, `caches`, `total_seconds`; `plain`
        and `patched`, the states and problems up to the capture. Nothing where the release has no such model, or none
        that can be made.
    """
    with quiet():
        if not case.exists() or not _can_make(case):
            return {}
        begin, exports = time.perf_counter(), Exports(case, stop=True)
        plain, patched = exports.outcome(patched=False), exports.outcome(patched=True)
        return {
            **_content(case, exports),
            "plain": _facts(plain),
            "patched": _facts(patched),
            "applied": patched.applied,
            "used": patched.used,
            "total_seconds": round(time.perf_counter() - begin, 1),
            "modules": loaded_models(),
            "caches": caches_of(case),
        }


def _facts(found: Outcome) -> dict[str, Any]:
    return {"state": found.state, "problems": found.problems}


def _can_make(case: Case) -> bool:
    try:
        case.decoder()
    except Exception:
        return False
    return True


def _content(case: Case, exports: "Exports") -> dict[str, dict[str, str]]:
    with quiet():
        eager = reference_digest(case)
    return {"content": {"program": digest_of(exports.programs), "eager": eager}} if eager else {}


@dataclass
class Exports:
    """The exports of a case, of each of which the first captured program is noted.

    Args:
        original: the case.
        stop: end each export at the capture.
    """

    original: Case
    stop: bool = False

    def __post_init__(self) -> None:
        self.programs: list[str] = []
        """A digest for each export that is no second one; empty if it captured nothing."""
        self._has_changed = False

    @property
    def case(self) -> Case:
        """The case, whose exports are noted; without a file there is nothing to compare."""
        noted = replace(self.original, write=self._write)
        return replace(noted, compare=_nothing) if self.stop else noted

    def outcome(self, *, patched: bool) -> Outcome:
        """Return what became of an export up to its capture.

        There is a second capture only if the first has changed something of the model.
        """
        gc.collect()
        self._has_changed, count = False, len(self.programs)
        found = check(self.case, Sample(), patched=patched, again=False)
        if self._has_changed and found.state == "works":
            del self.programs[count:]
            found = check(self.case, Sample(), patched=patched)
        return found

    def _write(self, decoder: Any, path: Path, _: Collection[str]) -> None:
        before = _attributes(decoder.model) if self.stop else {}
        found = list[str]()
        try:
            with self._noting(found), suppress(_StopError):
                export(decoder, Sample(), path)
        except Exception:
            # The exporter has given up: either nothing was captured, or what comes after that has failed.
            self.programs.append("".join(found[:1]))
            raise
        # A second export ends before this, by `Captured`: it is compared with the first, and is none of its own.
        self.programs.append("".join(found[:1]))
        self._has_changed = self.stop and _attributes(decoder.model) != before

    @contextmanager
    def _noting(self, found: list[str]) -> Iterator[None]:
        """Note the digest of each program that `torch.export.export` returns meanwhile."""
        import torch

        original = torch.export.export

        @functools.wraps(original)
        def noted(*args: Any, **kwargs: Any) -> Any:
            program = original(*args, **kwargs)
            found.append(program_digest(program))
            if self.stop:
                raise _StopError
            return program

        torch.export.export = noted
        try:
            yield
        finally:
            torch.export.export = original


class _StopError(BaseException):
    """Ends an export after its capture; no `Exception`, because exporters go on after those."""


def _nothing(_: Path | Program, __: Any) -> list[Discrepancy]:
    """Stand for a comparison, where there is no file."""
    return [Discrepancy(call="no file", absolute=0.0, relative=0.0, share=0.0, success=True)]


def _attributes(model: Any) -> dict[str, str]:
    """Return what each module of a model holds, so that what an export leaves behind shows."""
    import torch

    found = {}
    for path, module in model.named_modules():
        for name, value in {**vars(module), **module._buffers, **module._parameters}.items():
            is_plain = type(value) in (torch.Tensor, torch.nn.Parameter)
            is_short = isinstance(value, int | float | str | tuple | type(None))
            found[f"{path}.{name}"] = value_digest(value) if is_plain else repr(value) if is_short else str(id(value))
    return found
