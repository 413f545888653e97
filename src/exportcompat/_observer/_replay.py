"""Run what was observed once more, through an exported file, and the schedule of decoders behind it."""

import functools
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import Signature
from itertools import pairwise
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat._verification import (
    LOGITS,
    PREFIX,
    Contract,
    Discrepancies,
    Discrepancy,
    OnnxFile,
    Schedule,
    contract_of,
    decoder_schedules,
    matched,
    measure,
    placed,
    run,
    same_tokens,
)
from exportcompat.patches.toolkit.cache_names import cache_name

from . import _export_sample
from ._alignment import Aligned
from ._bounds import Condition, call_sizes, conditions, labelled, outside, schedules, sizes_around
from ._dynamic_axes import Axes
from ._eager_decoder import EagerDecoder, output_names
from ._embedded_tokens import embed
from ._progress import Progress, Tell
from ._record import Part, Record, take_result
from ._text_only_decoder import TextOnlyDecoder

_REFUSED = "ONNX Runtime: "
"""Begins the error of a call that the file does not take."""


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


def replay(
    observed: Observed, path: Path, tolerance: float | None, names: Mapping[str, str], tell: Tell
) -> Discrepancies:
    """Compare every stored call, for decoders every call of the schedule, and calls around each bound of the file.

    Raises:
        ExportCompatError: the file cannot be loaded, or has an input or output that was not observed.
    """
    file, results = OnnxFile(path), tensor_outputs(observed.records, observed.aligned)
    progress = Progress(tell)
    rows = list(progress.through(_stored(observed, file, results, tolerance, names), len(observed.records)))
    if names:
        return Discrepancies(rows)
    found, contract = conditions(file.metadata), contract_of(file.metadata)
    notes = _without_cache(observed)
    if contract != Contract():
        notes.append(f"compared within its contract: {contract}")
    if weights := file.metadata.get(f"{PREFIX}weights"):
        notes.append(f"its weights are smaller than the model's, which counts as a difference: {weights}")
    if observed.aligned.is_decoder:
        usual = _admitted(contract, decoder_schedules())
        for row in progress.through(_scheduled(observed, file, results, tolerance, usual), _calls(usual)):
            _sort(row, found, rows, notes)
        more, dear = schedules(found, rows)
        notes += dear
        more = _admitted(contract, more)
        for row in progress.through(_scheduled(observed, file, results, tolerance, more), _calls(more)):
            _sort(row, found, rows, notes)
    else:
        for row in progress.through(_resized(observed, file, results, tolerance, found), 0):
            _sort(row, found, rows, notes)
    return Discrepancies(rows, list(dict.fromkeys(notes)))


def _calls(found: Iterable[Schedule]) -> int:
    return sum(len(schedule.lengths) for schedule in found)


def _without_cache(observed: Observed) -> list[str]:
    """Return a sentence if a model generates, each call with a token more, and has no cache that a file could take."""
    shapes = [record.inputs.tensors["input_ids"].shape for record in observed.records if _has_tokens(record)]
    grows = any(late[1] == early[1] + 1 for early, late in pairwise(shapes))
    if observed.aligned.is_decoder or not grows:
        return []
    call = f"{type(observed.model).__name__}.{observed.method}"
    hint = _hint(observed.signature)
    return [f"the file has no cache and computes the whole text for each token: {call} was called without one; {hint}"]


def _has_tokens(record: Record) -> bool:
    tokens = record.inputs.tensors.get("input_ids")
    return tokens is not None and tokens.dim() == 2


def _hint(signature: Signature) -> str:
    name = cache_name(signature.parameters)
    if not name:
        return "it takes none"
    return f"let prepare_inputs_for_generation hand {name} on, or export inputs that have it"


def _sort(row: Discrepancy, found: list[Condition], rows: list[Discrepancy], notes: list[str]) -> None:
    """Put a row where it belongs: a call that the file refuses, where it says that it is not right, is a note."""
    broken = outside(found, _sizes(row))
    if broken and row.error.startswith(_REFUSED):
        notes.append(f"the file refuses calls outside of {'; '.join(map(str, broken))}")
    else:
        rows.append(labelled(row, broken))


def _sizes(row: Discrepancy) -> Mapping[str, int]:
    if row.sizes or row.past is None or row.new is None:
        return row.sizes
    shape = row.inputs.get("input_ids") or next(iter(row.inputs.values()), (1,))
    return call_sizes(shape[0], row.past, row.new)


def _stored(
    observed: Observed, file: OnnxFile, results: dict[str, str], tolerance: float | None, names: Mapping[str, str]
) -> Iterator[Discrepancy]:
    aligned = observed.aligned
    known = _input_paths(aligned)
    rest = [name for name in file.inputs if name not in names]
    inputs = {**names, **{name: known[other] for name, other in matched(rest, known, "the inputs").items()}}
    outputs, contract = placed(file.outputs, list(results.values())), contract_of(file.metadata)
    for index, record in enumerate(observed.records):
        tensors = _export_sample.call(aligned, observed.axes, index)
        feeds = {name: tensors[leaf] for name, leaf in inputs.items() if leaf in tensors}
        if not _within(contract, feeds):
            continue
        called = replace(record, kept=1) if contract.last_logits else record
        yield _row(index, len(observed.records), called, file, feeds, outputs, results, tolerance)


def _admitted(contract: Contract, wanted: Iterable[Schedule]) -> list[Schedule]:
    return [item for item in wanted if contract.admits_all(item.batch, item.lengths)]


def _within(contract: Contract, feeds: Mapping[str, Any]) -> bool:
    """Say whether a call of a decoder is one that a file takes."""
    tokens = feeds.get("input_ids", feeds.get("inputs_embeds"))
    if contract == Contract() or tokens is None:
        return True
    past = feeds["attention_mask"].shape[1] - tokens.shape[1] if "attention_mask" in feeds else 0
    return contract.admits(tokens.shape[0], past, tokens.shape[1])


def _input_paths(aligned: Aligned) -> dict[str, str]:
    """Return the path of each input by its name.

    What torch makes up itself is made of the path of a leaf, not of its name in the interface.
    """
    paths = {name: leaf for leaf, name in aligned.names().items()}
    return {**{leaf: leaf for leaf in aligned.names()}, **paths}


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
        return Discrepancy(**fields, error=f"{_REFUSED}{first_line(error)}")
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
        wanted = {**wanted, **({LOGITS: wanted[LOGITS][:, -kept:]} if LOGITS in wanted else {})}
    found = {name: _trimmed(tensor, wanted.get(name), kept) for name, tensor in found.items()}
    measured = measure(found, wanted, tolerance)
    if LOGITS in wanted and "error" not in measured and wanted[LOGITS].dim() == 3:
        fields["same_tokens"] = same_tokens(found[LOGITS], wanted[LOGITS])
        measured["success"] = measured["success"] and fields["same_tokens"]
    return Discrepancy(**fields, **measured)


def _trimmed(found: Any, wanted: Any, kept: int) -> Any:
    """Return an output for the last `kept` tokens where eager has it for those alone, as Moshi its hidden states."""
    if not kept or wanted is None or wanted.dim() < 2 or found.dim() != wanted.dim():
        return found
    cut = found[:, -kept:]
    return cut if cut.shape == wanted.shape else found


def _scheduled(
    observed: Observed,
    file: OnnxFile,
    names: dict[str, str],
    tolerance: float | None,
    wanted: Iterable[Schedule],
) -> Iterator[Discrepancy]:
    from exportcompat.patches.toolkit.module_state import preserved

    config = getattr(observed.model, "config", None)
    embedder = functools.partial(embed, observed.model)
    decoder = TextOnlyDecoder(file, list(names.values()), config, observed.aligned, observed.axes, embedder)
    logits = next(leaf for leaf, name in names.items() if name == LOGITS)
    width = next(
        int(item.outputs.tensors[logits].shape[-1]) for item in observed.records if logits in item.outputs.tensors
    )
    model = observed.model
    known = list(decoder.names.values())
    eager = EagerDecoder(model, observed.method, observed.signature, observed.aligned, known, width)
    for schedule in wanted:
        # A model may keep state from call to call (dynamic NTK does); each sequence begins anew.
        with preserved(model):
            yield from _guarded(schedule, run(decoder, eager, schedule, tolerance))


def _guarded(schedule: Schedule, rows: Iterator[Discrepancy]) -> Iterator[Discrepancy]:
    """Yield rows; what ends them early is a row too."""
    name, past, done = str(schedule), 0, 0
    try:
        for row in rows:
            yield row
            past, done = past + (row.new or 0), done + 1
    except Exception as error:
        # ONNX Runtime refuses a shape that the graph was not traced for; eager may have its own limits.
        sizes = call_sizes(schedule.batch, past, schedule.lengths[min(done, len(schedule.lengths) - 1)])
        text = f"{_REFUSED}{first_line(error)}" if _is_refusal(error) else first_line(error)
        yield Discrepancy(call=name, group=name, error=text, sizes=sizes)


def _is_refusal(error: Exception) -> bool:
    return type(error).__module__.startswith("onnxruntime")


def _resized(
    observed: Observed, file: OnnxFile, names: dict[str, str], tolerance: float | None, found: list[Condition]
) -> Iterator[Discrepancy]:
    """Yield comparisons of the first call at sizes on both sides of each condition."""
    aligned, axes = observed.aligned, observed.axes
    base = _export_sample.call(aligned, axes, 0)
    known = {name: int(base[path].shape[axis]) for path, named in axes.items() for axis, name in named.items()}
    for condition in found:
        if not condition.holds(known):
            continue
        for sizes in sizes_around(condition, known):
            tensors = {
                path: _export_sample.resized(base[path], {axis: sizes[name] for axis, name in axes[path].items()})
                for path in aligned.paths
            }
            yield _called(observed, file, names, tolerance, tensors, sizes)


def _called(
    observed: Observed,
    file: OnnxFile,
    names: dict[str, str],
    tolerance: float | None,
    tensors: dict[str, Any],
    sizes: dict[str, int],
) -> Discrepancy:
    """Compare one call that is made up; where eager refuses it, there is nothing to compare."""
    torch = require("torch", "torch")
    call = "made up: " + ", ".join(f"{name} {size}" for name, size in sizes.items())
    fields: dict[str, Any] = {"call": call, "group": "calls around bounds", "sizes": sizes}
    begin = time.perf_counter()
    try:
        with torch.no_grad():
            result = getattr(observed.model, observed.method)(**_export_sample.build(observed.aligned, tensors))
    except Exception as error:
        return Discrepancy(**fields, success=True, absolute=0.0, relative=0.0, share=0.0, error=f"eager: {error}")
    record = Record(Part(), take_result(result), 0, time.perf_counter() - begin)
    inputs = matched(file.inputs, _input_paths(observed.aligned), "the inputs")
    paths = _input_paths(observed.aligned)
    feeds = {name: tensors[paths[other]] for name, other in inputs.items()}
    outputs = placed(file.outputs, list(names.values()))
    row = _row(0, 1, record, file, feeds, outputs, names, tolerance)
    return replace(row, **{key: value for key, value in fields.items() if key != "sizes"}, sizes=sizes)


_LONGEST, _HEAD = 300, 160


def first_line(error: BaseException) -> str:
    """Return the class and the telling line of an error; torch's exporter puts a long preface before it."""
    text = str(error)
    _, found, rest = text.partition("## Exception summary")
    lines = [line.strip() for line in (rest if found else text).splitlines() if line.strip()]
    line = f"{type(error).__name__}: {(lines or [''])[0]}"
    # ONNX Runtime has the place first, with the whole signature of a function, and what is wrong last.
    return line if len(line) <= _LONGEST else f"{line[:_HEAD]} ... {line[_HEAD - _LONGEST :]}"
