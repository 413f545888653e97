"""Run what was observed once more, through an exported file, and the schedule of decoders behind it."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from exportcompat._verification import (
    CPU,
    LOGITS,
    PREFIX,
    Contract,
    Discrepancies,
    Discrepancy,
    HalfPrecisionFile,
    OnnxFile,
    Schedule,
    contract_of,
    decoder_schedules,
    matched,
    placed,
    run,
)
from exportcompat.registry import ExportCompatError

from . import _export_sample
from ._bounds import Condition, around_lengths, call_sizes, conditions, labelled, outside, schedules
from ._compared_call import REFUSED, Observed, compared_row, first_line, input_paths, may_lack_results, tensor_outputs
from ._eager_decoder import EagerDecoder
from ._eager_limits import EagerRefusesError, with_eager_limits
from ._embedded_tokens import embed
from ._made_up_calls import MadeUpCalls
from ._progress import Progress, Tell
from ._text_only_decoder import TextOnlyDecoder
from ._without_cache import NO_CACHE, without_cache

_File = OnnxFile | HalfPrecisionFile


def replay(
    observed: Observed,
    file: _File,
    tolerance: float | None,
    names: Mapping[str, str],
    tell: Tell,
    given: Contract | None = None,
) -> Discrepancies:
    """Compare every stored call, for decoders every call of the schedule, and calls around each bound of the file.

    A contract that is given narrows the one that the file states.

    Raises:
        ExportCompatError: the file has an input or output that was not observed; a contract is given, and it is no
            decoder.
    """
    contract = _contract(observed, file, given)
    if not isinstance(file, HalfPrecisionFile):
        return _replayed(observed, file, tolerance, names, tell, contract)
    made = _replayed(observed, file, file.tolerance if tolerance is None else tolerance, names, tell, contract)
    rows, notes = file.as_it_is()
    return Discrepancies([*made, *rows], [*made.notes, *notes])


def _replayed(
    observed: Observed,
    file: _File,
    tolerance: float | None,
    names: Mapping[str, str],
    tell: Tell,
    contract: Contract,
) -> Discrepancies:
    results = tensor_outputs(observed.records, observed.aligned)
    progress = Progress(tell)
    rows = list(progress.through(_stored(observed, file, results, tolerance, names, contract), len(observed.records)))
    if names:
        return Discrepancies(rows)
    found = conditions(file.metadata)
    said = file.metadata.get(f"{PREFIX}{NO_CACHE}") or without_cache(observed)
    notes = [*([said] if said else []), *_ways(file, contract), *_lacking(file, results)]
    if observed.aligned.is_decoder:
        usual = _admitted(contract, decoder_schedules())
        compared = _scheduled(observed, file, results, tolerance, usual, notes)
        for row in progress.through(compared, _calls(usual)):
            _sort(row, found, rows, notes)
        more, dear = schedules(found, rows)
        around, long = around_lengths(sorted(set(observed.aligned.windows.values())), rows)
        notes += [*dear, *long]
        more = _admitted(contract, [*more, *around])
        compared = _scheduled(observed, file, results, tolerance, more, notes, are_beyond=True)
        for row in progress.through(compared, _calls(more)):
            _sort(row, found, rows, notes)
    else:
        made_up = MadeUpCalls(observed, file, results, tolerance)
        for row in progress.through(chain(made_up.unseen(notes), made_up.around_bounds(found)), 0):
            _sort(row, found, rows, notes)
    return Discrepancies(rows, list(dict.fromkeys(notes)))


def _contract(observed: Observed, file: _File, given: Contract | None) -> Contract:
    """Return the contract within which a file is compared.

    Raises:
        ExportCompatError: one is given, and the file is no decoder.
    """
    stated = contract_of(file.metadata)
    if file.ignores_padding:
        stated = stated.narrowed(Contract(padding=False))
    if given is None or given == Contract():
        return stated
    if not observed.aligned.is_decoder:
        raise ExportCompatError(
            f"{file.path} is compared with {type(observed.model).__name__}.{observed.method}, which is no decoder with "
            "a cache, and a contract is one of a decoder's calls; compare it without one"
        )
    return stated.narrowed(given)


def _widened(file: _File) -> str:
    """Return what there is to say of a file in half precision that is run as a copy."""
    if isinstance(file, HalfPrecisionFile):
        return (
            f"compared as a copy in float32 with the same weights, with such a copy of the model: what {file.half} "
            "rounds off is no fault of a file"
        )
    return (
        "run as a copy in float32 with the same weights, for which ONNX Runtime has the kernels, and compared with the "
        "model, which does not run in float32"
    )


def _ways(file: _File, contract: Contract) -> list[str]:
    """Return sentences that say how a file is run, and what is not asked of it."""
    weights = file.metadata.get(f"{PREFIX}weights")
    found = [_widened(file)] if file.is_widened else []
    if file.provider != CPU:
        found.append(f"run by {file.provider}, with products of float32 in float32 and not in TF32")
    if contract != Contract():
        found.append(f"compared within its contract: {contract}")
    if file.ignores_padding:
        found.append("the decoder takes no attention_mask: compared without padding of its tokens")
    if weights:
        found.append(f"its weights are smaller than the model's, which counts as a difference: {weights}")
    return found


def _lacking(file: _File, results: Mapping[str, str]) -> list[str]:
    """Return sentences that name the results which the model alone has, or the file: eager's may be a number."""
    found = placed(file.outputs, list(results.values()), partly=True)
    lost = [name for name in results.values() if name not in found.values()]
    more = [name for name in file.outputs if name not in found]
    return [
        *([f"the file does not have, so not compared: {', '.join(lost)}"] if lost else []),
        *([f"eager has no tensor for, so not compared: {', '.join(more)}"] if more else []),
    ]


def _calls(found: Iterable[Schedule]) -> int:
    return sum(len(schedule.lengths) for schedule in found)


def _sort(row: Discrepancy, found: list[Condition], rows: list[Discrepancy], notes: list[str]) -> None:
    """Put a row where it belongs: a call that the file refuses, where it says that it is not right, is a note."""
    broken = outside(found, _sizes(row))
    if broken and row.error.startswith(REFUSED):
        notes.append(f"the file refuses calls outside of {'; '.join(map(str, broken))}")
    else:
        rows.append(labelled(row, broken))


def _sizes(row: Discrepancy) -> Mapping[str, int]:
    if row.sizes or row.past is None or row.new is None:
        return row.sizes
    shape = row.inputs.get("input_ids") or next(iter(row.inputs.values()), (1,))
    return call_sizes(shape[0], row.past, row.new)


def _stored(
    observed: Observed,
    file: _File,
    results: dict[str, str],
    tolerance: float | None,
    names: Mapping[str, str],
    contract: Contract,
) -> Iterator[Discrepancy]:
    aligned = observed.aligned
    known = input_paths(aligned)
    rest = [name for name in file.inputs if name not in names]
    inputs = {**names, **{name: known[other] for name, other in matched(rest, known, "the inputs").items()}}
    outputs = placed(file.outputs, list(results.values()), partly=may_lack_results(aligned, file))
    for index, record in enumerate(observed.records):
        tensors = _export_sample.call(aligned, observed.axes, index)
        feeds = {name: tensors[leaf] for name, leaf in inputs.items() if leaf in tensors}
        if not _within(contract, feeds):
            continue
        called = replace(record, kept=1) if contract.last_logits else record
        yield compared_row(index, len(observed.records), called, file, feeds, outputs, results, tolerance)


def _admitted(contract: Contract, wanted: Iterable[Schedule]) -> list[Schedule]:
    """Return the conversations up to the first call that is not within the contract, each once."""
    cut = (
        replace(item, lengths=contract.admitted(item.batch, item.lengths, padded=item.padding > 0)) for item in wanted
    )
    return [item for item in dict.fromkeys(cut) if item.lengths]


def _within(contract: Contract, feeds: Mapping[str, Any]) -> bool:
    """Say whether a call of a decoder is one that a file takes."""
    tokens = feeds.get("input_ids", feeds.get("inputs_embeds"))
    if contract == Contract() or tokens is None:
        return True
    mask = feeds.get("attention_mask")
    past = 0 if mask is None else mask.shape[1] - tokens.shape[1]
    padded = mask is not None and not bool(mask.all())
    return contract.admits(tokens.shape[0], past, tokens.shape[1], padded=padded)


def _scheduled(
    observed: Observed,
    file: _File,
    names: dict[str, str],
    tolerance: float | None,
    wanted: Iterable[Schedule],
    notes: list[str],
    *,
    are_beyond: bool = False,
) -> Iterator[Discrepancy]:
    """Yield the comparisons of conversations; those that are longer than the usual ones may be so for eager too."""
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
    tokens = observed.aligned.donors.get("input_ids")
    codes = 0 if tokens is None or tokens.dim() == 2 else int(tokens.shape[2])
    for schedule in (replace(item, codes=codes) for item in wanted):
        # A model may keep state from call to call (dynamic NTK does); each sequence begins anew.
        with preserved(model):
            called, reference = with_eager_limits(decoder, eager) if are_beyond else (decoder, eager)
            yield from _guarded(schedule, run(called, reference, schedule, tolerance, types=False), notes)
    notes += eager.notes


def _guarded(schedule: Schedule, rows: Iterator[Discrepancy], notes: list[str]) -> Iterator[Discrepancy]:
    """Yield rows; what ends them early is a row too, or a note where it is eager."""
    name, past, done = str(schedule), 0, 0
    try:
        for row in rows:
            yield row
            past, done = past + (row.new or 0), done + 1
    except EagerRefusesError as error:
        notes.append(f"not compared: {name}, from length {past + 1} on; eager: {error}")
    except Exception as error:
        # ONNX Runtime refuses a shape that the graph was not traced for; eager may have its own limits.
        sizes = call_sizes(schedule.batch, past, schedule.lengths[min(done, len(schedule.lengths) - 1)])
        text = f"{REFUSED}{first_line(error)}" if _is_refusal(error) else first_line(error)
        yield Discrepancy(call=name, group=name, error=text, sizes=sizes)


def _is_refusal(error: Exception) -> bool:
    return type(error).__module__.startswith("onnxruntime")
