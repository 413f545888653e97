"""Export one case and find out whether the file works: `native`, `patched`, `wrong` or `fails`."""

import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from exportcompat import PatchReport, apply_patches
from exportcompat._discrepancy import Discrepancy
from exportcompat._replay import first_line
from exportcompat._verify import compare, decoder_schedules

from ._cases import Case
from ._decoders import Decoder, Sample
from ._state import State


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
        used: ids of the specs that were called.
    """

    case: str
    sample: str
    state: str
    problems: list[str] = field(default_factory=list)
    difference: float | None = None
    calls: int = 0
    seconds: float = 0.0
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
        again: export a second time and compare the two graphs.
    """
    if not case.exists():
        return Outcome(case.name, str(sample), "absent", ["the installed transformers has no such model"])
    exclude = [*exclude, *case.exclude]
    decoder, state = case.decoder(), State()
    state.note_model(decoder)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        begin = time.perf_counter()
        scope: AbstractContextManager[Any] = apply_patches(exclude=exclude) if patched else nullcontext()
        try:
            with case.around(), scope as report:
                export(decoder, sample, path)
        except Exception as error:
            return _failed(case, sample, error, time.perf_counter() - begin)
        seconds = time.perf_counter() - begin
        calls, problems = _compare(case, path)
        problems += state.changes(decoder)
        if again and not problems:
            problems += _second(case, decoder, sample, path, exclude if patched else None)
    return _outcome(case, sample, calls, problems, seconds, report)


def _compare(case: Case, path: Path) -> tuple[list[Discrepancy], list[str]]:
    try:
        calls = compare(path, case.decoder, decoder_schedules())
    except Exception as error:
        # ONNX Runtime refuses a shape that the graph was not traced for: the file exists, and is not right.
        return [], [f"ONNX Runtime: {first_line(error)}"]
    wrong = sorted((call for call in calls if not call.success), key=lambda call: -call.absolute)
    return calls, [str(call) for call in wrong] if calls else ["nothing was compared"]


def _second(case: Case, decoder: Decoder, sample: Sample, path: Path, exclude: list[str] | None) -> list[str]:
    other = path.with_name("again.onnx")
    try:
        with case.around(), nullcontext() if exclude is None else apply_patches(exclude=exclude):
            export(decoder, sample, other)
    except Exception as error:
        return [f"a second export fails: {first_line(error)}"]
    return [] if graph_text(path) == graph_text(other) else ["a second export gives another graph"]


def graph_text(path: Path) -> bytes:
    """Return the nodes, values, inputs and outputs of a file, with their names and without debugging notes."""
    import onnx

    model = onnx.load(str(path))
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        del graph.metadata_props[:]
        for part in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            del part.metadata_props[:]
        for node in graph.node:
            del node.metadata_props[:]
            graphs += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    text: bytes = model.SerializeToString(deterministic=True)
    return text


def _failed(case: Case, sample: Sample, error: BaseException, seconds: float) -> Outcome:
    return Outcome(case.name, str(sample), "fails", [first_line(error)], None, 0, seconds)


def _outcome(
    case: Case,
    sample: Sample,
    calls: list[Discrepancy],
    problems: list[str],
    seconds: float,
    report: PatchReport | None,
) -> Outcome:
    difference = max((call.absolute for call in calls), default=None)
    used = report.used if report is not None else []
    state = "wrong" if problems else "works"
    return Outcome(case.name, str(sample), state, problems, difference, len(calls), seconds, used)


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
