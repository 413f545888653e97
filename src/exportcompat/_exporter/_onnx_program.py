"""Give an exported program its last touches, and write it so that there is a whole file or none."""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exportcompat._observer import PAST, SEQUENCE, TOTAL
from exportcompat._verification import PREFIX
from exportcompat._version import __version__
from exportcompat.registry import PACKAGES, Assumption, ExportCompatError, PatchReport, installed_version

_SUMS = {f"{left} + {right}" for left, right in ((PAST, SEQUENCE), (SEQUENCE, PAST))}
IN_FILE = 128 * 2**20
"""Bytes of weights that are written into the file itself; a protobuf is there three times while it is made and read."""


def metadata(
    report: PatchReport, about: Mapping[str, str], assumptions: Sequence[Assumption] | None = None
) -> dict[str, str]:
    """Return what a file says of its making: our version, those of other packages, the specs used, the whole report.

    Args:
        report: of the scope in which it was made.
        about: further facts.
        assumptions: what this file takes for granted; None for everything in the report.
    """
    versions = {name: str(found) for name in PACKAGES if (found := installed_version(name)) is not None}
    taken = report.assumptions if assumptions is None else assumptions
    facts = {
        "version": __version__,
        "versions": json.dumps(versions),
        "specs": ",".join(report.used),
        "assumptions": json.dumps([item.to_dict() for item in taken]),
    }
    return {
        f"{PREFIX}{key}": value for key, value in {**facts, "report": json.dumps(report.to_dict()), **about}.items()
    }


def name_axes(program: Any, axes: Mapping[str, Mapping[int, str]]) -> None:
    """Give the axes their names on every value of the graph, past + sequence that of the attention mask's axis.

    torch does so itself unless an argument is a constant, and has no name for a sum.

    Args:
        program: a `torch.onnx.ONNXProgram`.
        axes: name by axis, by input.
    """
    graph = program.model.graph
    names: dict[str, str] = {}
    for value in graph.inputs:
        for axis, name in axes.get(value.name, {}).items():
            names.setdefault(_symbol(value.shape[axis]), name)
    for value in _values(graph):
        for axis, dim in enumerate(value.shape or ()):
            found = _symbol(dim)
            # A size that torch has found to be constant has no name.
            if found and (renamed := _renamed(found, names)) != found:
                value.shape[axis] = renamed


def drop_unused(program: Any) -> None:
    """Take from a graph the inputs that nothing in it reads: clients would have to give them all the same.

    Whisper's encoder takes a mask for the sake of its signature, and `generate` of some releases passes one.

    Args:
        program: a `torch.onnx.ONNXProgram`.
    """
    graph = program.model.graph
    for value in list(graph.inputs):
        if not value.uses() and value not in graph.outputs:
            graph.inputs.remove(value)


def _symbol(dim: Any) -> str:
    value = getattr(dim, "value", None)
    return value if isinstance(value, str) else ""


def _renamed(expression: str, names: Mapping[str, str]) -> str:
    renamed = re.sub(r"[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), expression)
    return TOTAL if renamed in _SUMS else renamed


def _values(graph: Any) -> Iterator[Any]:
    yield from graph.inputs
    yield from graph.outputs
    for node in graph:
        yield from node.outputs


def save(program: Any, path: Path, facts: Mapping[str, str], external_data: bool | None) -> None:
    """Write the file, and its weights beside it as `<name>.data` if they are external.

    Args:
        program: a `torch.onnx.ONNXProgram`.
        path: where to; what is there is replaced once the new file is complete.
        facts: for `metadata_props`.
        external_data: None for weights in the file unless they have more than `IN_FILE` bytes.

    Raises:
        ExportCompatError: the folder cannot be written to.
    """
    program.model.metadata_props.update(facts)
    if external_data is None:
        external_data = sum(item.const_value.nbytes for item in program.model.graph.initializers.values()) > IN_FILE
    with _staged(path) as folder:
        program.save(str(folder / path.name), external_data=external_data)


@contextmanager
def _staged(path: Path) -> Iterator[Path]:
    """Yield a folder beside `path`; its files move to `path`'s folder at the end, the one of this name last."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise ExportCompatError(f"cannot write to {path.parent}: {error}") from error
    try:
        yield folder
        for file in sorted(folder.iterdir(), key=lambda file: file.name == path.name):
            file.replace(path.parent / file.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
