"""Compare one call of an exported file with what eager gave."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Signature
from typing import Any

from exportcompat._verification import LOGITS, PREFIX, Discrepancy, Program, measure, same_tokens

from ._alignment import Aligned
from ._dynamic_axes import Axes
from ._eager_decoder import output_names
from ._record import Record

REFUSED = "ONNX Runtime: "
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


def input_paths(aligned: Aligned) -> dict[str, str]:
    """Return the path of each input by its name.

    What torch makes up itself is made of the path of a leaf, not of its name in the interface.
    """
    paths = {name: leaf for leaf, name in aligned.names().items()}
    return {**{leaf: leaf for leaf in aligned.names()}, **paths}


def tensor_outputs(records: list[Record], aligned: Aligned) -> dict[str, str]:
    """Return the names of the results that are tensors, by path; a graph has no others."""
    tensors = {path for record in records for path in record.outputs.tensors}
    return {path: name for path, name in output_names(aligned).items() if path in tensors}


def may_lack_results(aligned: Aligned, file: Program) -> bool:
    """Say whether a file need not have all that its model returns: others write the results that they want."""
    return not aligned.is_decoder and not is_ours(file)


def is_ours(file: Program) -> bool:
    """Say whether a file was written by `export`."""
    return any(key.startswith(PREFIX) for key in file.metadata)


def compared_row(
    index: int,
    count: int,
    record: Record,
    file: Program,
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
        return Discrepancy(**fields, error=f"{REFUSED}{first_line(error)}")
    fields["onnx_ms"] = 1000 * (time.perf_counter() - begin)
    found = {outputs[name]: tensor for name, tensor in results.items() if name in outputs}
    # What this call did not return (image features, in a call without images) says nothing.
    given = record.outputs.tensors
    asked = set(outputs.values())
    wanted = {name: given[path] for path, name in names.items() if path in given and name in asked}
    return compared(fields, found, wanted, record.kept, tolerance)


def compared(
    fields: dict[str, Any], found: dict[str, Any], wanted: dict[str, Any], kept: int, tolerance: float | None
) -> Discrepancy:
    if kept and LOGITS in found:
        found[LOGITS] = found[LOGITS][:, -kept:]
        wanted = {**wanted, **({LOGITS: wanted[LOGITS][:, -kept:]} if LOGITS in wanted else {})}
    found = {name: _trimmed(tensor, wanted.get(name), kept) for name, tensor in found.items()}
    # Those of a file were compared once for all calls; a copy in float32 has others.
    measured = measure(found, wanted, tolerance, types=False)
    if LOGITS in wanted and "error" not in measured and wanted[LOGITS].dim() == 3:
        fields["same_tokens"] = same_tokens(found[LOGITS], wanted[LOGITS], tolerance)
        measured["success"] = measured["success"] and fields["same_tokens"]
    return Discrepancy(**fields, **measured)


def _trimmed(found: Any, wanted: Any, kept: int) -> Any:
    """Return an output for the last `kept` tokens where eager has it for those alone, as Moshi its hidden states."""
    if not kept or wanted is None or wanted.dim() < 2 or found.dim() != wanted.dim():
        return found
    cut = found[:, -kept:]
    return cut if cut.shape == wanted.shape else found


_LONGEST, _HEAD = 300, 160


def first_line(error: BaseException) -> str:
    """Return the class and the telling line of an error; torch's exporter puts a long preface before it."""
    text = str(error)
    _, found, rest = text.partition("## Exception summary")
    lines = [line.strip() for line in (rest if found else text).splitlines() if line.strip()]
    line = f"{type(error).__name__}: {(lines or [''])[0]}"
    # ONNX Runtime has the place first, with the whole signature of a function, and what is wrong last.
    return line if len(line) <= _LONGEST else f"{line[:_HEAD]} ... {line[_HEAD - _LONGEST :]}"
