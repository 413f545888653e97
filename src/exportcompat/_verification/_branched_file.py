"""The decoder of an encoder-decoder as optimum writes it: one graph for the first call, and another for later ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat.registry import ExportCompatError

from ._onnx_decoder import PAST_ARGUMENT
from ._onnx_file import OnnxFile
from ._providers import CPU

FIRST, LATER = "decoder_model.onnx", "decoder_with_past_model.onnx"
"""The names of two files for one decoder."""

_SWITCH = "use_cache_branch"
"""The input that chooses, where both graphs are branches of one file."""

_MASK = "attention_mask"
_PRESENT = "present."
_STATES = ".encoder."
"""In the names of keys and values of an encoder's states: later calls take them and do not return them."""


class BranchedFile(OnnxFile):
    """Two graphs as one: what is called with an empty cache is a first call.

    They take no mask of the tokens so far, so that one which is given is ignored.

    Args:
        first: the graph for first calls.
        later: the one for later calls; the same file where an input chooses.
    """

    ignores_padding = True

    def __init__(self, first: OnnxFile, later: OnnxFile) -> None:
        # It is the first file, but for its inputs and its calls: nothing is loaded once more.
        vars(self).update(vars(first))
        self._first, self._later = first, later
        inputs = {**later.inputs, **first.inputs, _MASK: ["batch", "total_sequence"]}
        self.inputs = {name: shape for name, shape in inputs.items() if name != _SWITCH}

    def in_float32(self, shaken: int | None = None) -> OnnxFile:
        """Return copies of both graphs that compute in float32; see `OnnxFile`."""
        first = self._first.in_float32(shaken)
        return BranchedFile(first, first if self._later is self._first else self._later.in_float32(shaken))

    def dtype(self, name: str) -> Any:
        """Return the torch dtype of an input."""
        if name == _MASK:
            return require("torch", "torch").int64
        return (self._first if name in self._first.inputs else self._later).dtype(name)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs by name, given tensors by name; see `OnnxFile`."""
        past = next(item for name, item in feeds.items() if name.startswith(PAST_ARGUMENT) and _STATES not in name)
        is_later = past.shape[2] > 0
        file = self._later if is_later else self._first
        given = {**feeds, _SWITCH: require("torch", "torch").tensor([is_later])}
        found = file.run({name: given[name] for name in file.inputs})
        kept = {name: feeds[_taken(name)] for name in self.outputs if is_later and _STATES in name}
        return {**found, **kept}


def _taken(name: str) -> str:
    return name.replace("present", PAST_ARGUMENT, 1)


def open_file(path: Path, provider: str = CPU) -> OnnxFile:
    """Return a file to run; one that is a part of a decoder stands for all of it. One that returns no cache is whole.

    Raises:
        ExportCompatError: see `OnnxFile`; the other part is not beside it.
    """
    if path.name == FIRST and path.is_file():
        whole = OnnxFile(path, provider=provider)
        if not any(name.startswith(_PRESENT) for name in whole.outputs):
            return whole
    if path.name in (FIRST, LATER):
        first, later = path.with_name(FIRST), path.with_name(LATER)
        if missing := next((item for item in (first, later) if not item.is_file()), None):
            raise ExportCompatError(
                f"{path} is a part of a decoder, and {missing.name}, the other one, is not beside it"
            )
        return BranchedFile(OnnxFile(first, provider=provider), OnnxFile(later, provider=provider))
    file = OnnxFile(path, provider=provider)
    return BranchedFile(file, file) if _SWITCH in file.inputs else file
