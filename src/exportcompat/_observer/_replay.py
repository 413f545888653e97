"""Run what was observed once more, through an exported file, and the schedule of decoders behind it."""

import functools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import Signature
from pathlib import Path
from typing import Any

from exportcompat._verification import (
    LOGITS,
    Discrepancies,
    Discrepancy,
    OnnxFile,
    decoder_schedules,
    matched,
    measure,
    placed,
    run,
    same_tokens,
)

from . import _export_sample
from ._alignment import Aligned
from ._dynamic_axes import Axes
from ._eager_decoder import EagerDecoder, output_names
from ._embedded_tokens import embed
from ._record import Record
from ._text_only_decoder import TextAlone


@dataclass(frozen=True)
class Observed:
    """Everything that was observed of a model.

    Attributes:
        model: the module.
        method: name of the method.
        signature: of the method.
        records: the stored calls.
        aligned: the calls side by side.
        axes: the dynamic axes.
    """

    model: Any
    method: str
    signature: Signature
    records: list[Record]
    aligned: Aligned
    axes: Axes


def replay(observed: Observed, path: Path, tolerance: float | None, names: Mapping[str, str]) -> Discrepancies:
    """Compare every stored call, and for decoders every call of the schedule.

    Raises:
        ExportCompatError: the file cannot be loaded, or has an input or output that was not observed.
    """
    file, results = OnnxFile(path), tensor_outputs(observed.records, observed.aligned)
    rows = list(_stored(observed, file, results, tolerance, names))
    if observed.aligned.is_decoder and not names:
        rows += _scheduled(observed, file, results, tolerance)
    return Discrepancies(rows)


def _stored(
    observed: Observed, file: OnnxFile, results: dict[str, str], tolerance: float | None, names: Mapping[str, str]
) -> Iterator[Discrepancy]:
    aligned = observed.aligned
    paths = {name: leaf for leaf, name in aligned.names().items()}
    # What torch makes up itself is made of the path of a leaf, not of its name in the interface.
    known = {**{leaf: leaf for leaf in aligned.names()}, **paths}
    rest = [name for name in file.inputs if name not in names]
    inputs = {**names, **{name: known[other] for name, other in matched(rest, known, "the inputs").items()}}
    outputs = placed(file.outputs, list(results.values()))
    for index, record in enumerate(observed.records):
        tensors = _export_sample.call(aligned, observed.axes, index)
        feeds = {name: tensors[leaf] for name, leaf in inputs.items() if leaf in tensors}
        yield _row(index, len(observed.records), record, file, feeds, outputs, results, tolerance)


def tensor_outputs(records: list[Record], aligned: Aligned) -> dict[str, str]:
    """Return the names of the results that are tensors, by path; a graph has no others."""
    tensors = {path for record in records for path in record.outputs.tensors}
    return {path: name for path, name in output_names(aligned).items() if path in tensors}


def _row(
    index: int,
    count: int,
    record: Record,
    file: OnnxFile,
    feeds: Mapping[str, Any],
    outputs: Mapping[str, str],
    names: dict[str, str],
    tolerance: float | None,
) -> Discrepancy:
    fields: dict[str, Any] = {
        "call": f"observed call {index + 1} of {count}",
        "torch_ms": 1000 * record.seconds,
        "inputs": {name: tuple(tensor.shape) for name, tensor in feeds.items()},
    }
    begin = time.perf_counter()
    try:
        results = file.run(feeds)
    except Exception as error:
        # ONNX Runtime refuses a shape that the graph was not traced for.
        return Discrepancy(**fields, error=f"ONNX Runtime: {first_line(error)}")
    fields["onnx_ms"] = 1000 * (time.perf_counter() - begin)
    found = {outputs[name]: tensor for name, tensor in results.items() if name in outputs}
    # What this call did not return (image features, in a call without images) says nothing.
    given = record.outputs.tensors
    wanted = {name: given[path] for path, name in names.items() if path in given}
    return _compared(fields, found, wanted, record.kept, tolerance)


def _compared(
    fields: dict[str, Any], found: dict[str, Any], wanted: dict[str, Any], kept: int, tolerance: float | None
) -> Discrepancy:
    if kept and LOGITS in found:
        found[LOGITS] = found[LOGITS][:, -kept:]
    measured = measure(found, wanted, tolerance)
    if LOGITS in wanted and "error" not in measured and wanted[LOGITS].dim() == 3:
        fields["same_tokens"] = same_tokens(found[LOGITS], wanted[LOGITS])
        measured["success"] = measured["success"] and fields["same_tokens"]
    return Discrepancy(**fields, **measured)


def _scheduled(
    observed: Observed, file: OnnxFile, names: dict[str, str], tolerance: float | None
) -> Iterator[Discrepancy]:
    from exportcompat.patches.toolkit.module_state import kept

    config = getattr(observed.model, "config", None)
    embedder = functools.partial(embed, observed.model)
    decoder = TextAlone(file, list(names.values()), config, observed.aligned, observed.axes, embedder)
    logits = next(leaf for leaf, name in names.items() if name == LOGITS)
    width = next(
        int(item.outputs.tensors[logits].shape[-1]) for item in observed.records if logits in item.outputs.tensors
    )
    model = observed.model
    known = list(decoder.names.values())
    eager = EagerDecoder(model, observed.method, observed.signature, observed.aligned, known, width)
    for schedule in decoder_schedules():
        # A model may keep state from call to call (dynamic NTK does); each sequence begins anew.
        with kept(model):
            yield from _guarded(str(schedule), run(decoder, eager, schedule, tolerance))


def _guarded(name: str, rows: Iterator[Discrepancy]) -> Iterator[Discrepancy]:
    """Yield rows; what ends them early is a row too."""
    try:
        yield from rows
    except Exception as error:
        # ONNX Runtime refuses a shape that the graph was not traced for; eager may have its own limits.
        yield Discrepancy(call=name, group=name, error=first_line(error))


def first_line(error: BaseException) -> str:
    """Return the class and the telling line of an error; torch's exporter puts a long preface before it."""
    text = str(error)
    _, found, rest = text.partition("## Exception summary")
    lines = [line.strip() for line in (rest if found else text).splitlines() if line.strip()]
    return f"{type(error).__name__}: {(lines or [''])[0]}"[:300]
