"""Export one case and find out whether the file works: `native`, `patched`, `wrong` or `fails`."""

import functools
import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from exportcompat import PatchReport, apply_patches
from exportcompat._observer import first_line
from exportcompat._verification import Discrepancy
from exportcompat.matrix.cases import Case, Decoder, Sample
from exportcompat.patches.toolkit.module_state import preserved

from ._restoration import Snapshot

_TYPED = re.compile(r'\b(\w+): "[^"]*"')


@dataclass(frozen=True)
class Outcome:
    """What became of one export.

    Attributes:
        case: the case.
        sample: the traced sample.
        state: `works`, `wrong`, `fails`, or `absent` where the installed transformers has no such model.
        problems: what does not hold, the worst first; empty if it works.
        difference: largest absolute difference of a logit; None if nothing was compared.
        calls: number of calls that were compared.
        seconds: time of the first export.
        applied: ids of the specs that were applied.
        used: ids of those that were called.
    """

    case: str
    sample: str
    state: str
    problems: list[str] = field(default_factory=list)
    difference: float | None = None
    calls: int = 0
    seconds: float = 0.0
    applied: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def export(decoder: Decoder, sample: Sample, path: Path, **options: Any) -> None:
    """Export with plain `torch.onnx.export(dynamo=True)` and the names of a decoder."""
    inputs = decoder.sample(sample)
    write(decoder.model, inputs, decoder.dynamic_shapes(inputs), decoder.names(inputs), path, **options)


def write(model: Any, inputs: Any, shapes: Any, names: tuple[list[str], list[str]], path: Path, **options: Any) -> None:
    """Export keyword arguments of `forward` with the names of inputs and outputs."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (),
            str(path),
            kwargs=inputs,
            dynamic_shapes=shapes,
            input_names=names[0],
            output_names=names[1],
            dynamo=True,
            optimize=True,
            verbose=False,
            **options,
        )


def check(
    case: Case, sample: Sample, *, patched: bool = True, exclude: Iterable[str] = (), again: bool = True
) -> Outcome:
    """Export `case` and check the file, the live model and every namespace that a spec may touch.

    Args:
        case: what to export.
        sample: the shape of what is traced.
        patched: export inside `apply_patches()`.
        exclude: ids of specs to leave out.
        again: export a second time and compare what is captured; not for a case that goes by another way.
    """
    if not case.exists():
        return Outcome(case.name, str(sample), "absent", ["the installed transformers has no such model"])
    exclude = [*exclude, *case.exclude]
    decoder, state, report = case.decoder(), Snapshot(), None
    state.note_model(decoder)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        begin = time.perf_counter()
        scope: AbstractContextManager[Any] = apply_patches(exclude=exclude) if patched else nullcontext()
        try:
            with case.around(), scope as report, captures() as graphs:
                _write(case, decoder, sample, path, report)
        except Exception as error:
            seconds = time.perf_counter() - begin
            return Outcome(case.name, str(sample), "fails", [first_line(error)], None, 0, seconds, *_specs(report))
        seconds = time.perf_counter() - begin
        calls, problems = _compare(case, path)
        # Eager makes tables of positions longer, of which a second capture would have other sizes.
        with preserved(decoder.model):
            problems += state.changes(decoder)
        if case.is_captured and not graphs:
            problems.append("torch.export captured nothing: the exporter went another way, by itself")
        if again and case.is_captured and not problems:
            problems += _second(case, decoder, sample, graphs[0], exclude if patched else None)
    difference = max((call.absolute for call in calls), default=None)
    found = "wrong" if problems else "works"
    return Outcome(case.name, str(sample), found, problems, difference, len(calls), seconds, *_specs(report))


def _write(case: Case, decoder: Decoder, sample: Sample, path: Path, report: PatchReport | None) -> None:
    """Export as the case wants it, inside a scope with this report."""
    if case.write is None:
        export(decoder, sample, path)
    else:
        case.write(decoder, path, _specs(report)[0])


def _specs(report: PatchReport | None) -> tuple[list[str], list[str]]:
    """Return the ids of the specs that were applied, and of those that were called; none without patches."""
    return ([], []) if report is None else (list(report.applied), report.used)


def _compare(case: Case, path: Path) -> tuple[list[Discrepancy], list[str]]:
    try:
        calls = case.compare(path, case.decoder)
    except Exception as error:
        # ONNX Runtime refuses a shape that the graph was not traced for: the file exists, and is not right.
        return [], [f"ONNX Runtime: {first_line(error)}".replace(f"{path.parent}{os.sep}", "")]
    wrong = sorted((call for call in calls if not call.success), key=lambda call: -call.absolute)
    return calls, [str(call) for call in wrong] if calls else ["nothing was compared"]


def _second(case: Case, decoder: Decoder, sample: Sample, first: str, exclude: list[str] | None) -> list[str]:
    """Export once more, until torch has captured the model: what comes then knows nothing of the first time."""
    try:
        scope: AbstractContextManager[Any] = nullcontext() if exclude is None else apply_patches(exclude=exclude)
        with case.around(), scope as report, captures(stop=True):
            _write(case, decoder, sample, Path("unused.onnx"), report)
    except Captured as found:
        return [] if found.text == first else ["a second export captures another graph"]
    except Exception as error:
        return [f"a second export fails: {first_line(error)}"]
    return ["a second export captures nothing"]


class Captured(BaseException):
    """The capture that an export was run for; no `Exception`, because exporters go on after those.

    Attributes:
        text: the graph.
    """

    def __init__(self, text: str) -> None:
        super().__init__("captured")
        self.text = text


@contextmanager
def captures(*, stop: bool = False) -> Iterator[list[str]]:
    """Give the list of the graphs that `torch.export.export` returns meanwhile, as texts.

    Args:
        stop: raise the first one, as `Captured`, instead of going on.
    """
    import torch

    original, texts = torch.export.export, list[str]()

    # A scope that is entered meanwhile must see through this, to the function that its spec was proved against.
    @functools.wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        program = original(*args, **kwargs)
        texts.append(_text(program))  # as a text, because the exporter changes the program afterwards
        if stop:
            raise Captured(texts[0])
        return program

    torch.export.export = recorded
    try:
        yield texts
    finally:
        torch.export.export = original


def _text(program: Any) -> str:
    """Return a captured graph without comments, which count torch's own files, and without types of unused inputs.

    Those may differ between two captures of a model that is right: an eager call lengthens a table that no graph reads.
    """
    nodes = program.graph.nodes
    unused = {node.name for node in nodes if node.op == "placeholder" and not node.users}
    lines = (line for line in str(program).splitlines() if not line.lstrip().startswith("#"))
    return _TYPED.sub(lambda found: found[1] if found[1] in unused else found[0], "\n".join(lines))


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the notices of transformers about tiny configurations out of the output."""
    import logging

    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
