"""Calls as a file has them whose sliding layers hold no more than their window: without the tokens that are out of it.

In a scope a layer keeps its full past, and so do the calls that are observed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exportcompat._verification import in_window, present_name
from exportcompat.patches.toolkit.sliding_layers import window_of
from exportcompat.registry import ExportCompatError

from ._alignment import Aligned
from ._eager_decoder import cache_layers, output_names
from ._record import Record

_MASK = "attention_mask"
_LEAST = 4
"""Tokens of the smallest window: a graph is traced with two keys or more, and with fewer than it has room for."""


def sliding_windows(aligned: Aligned, model: Any) -> dict[str, int]:
    """Return the window of each tensor of the cache that slides, in tokens, by the name of its input.

    Raises:
        ExportCompatError: there is none, it is too small, or the calls have no mask that says how long the past is.
    """
    name = type(model).__name__
    layers = cache_layers(aligned)
    windows = {path: window for layer in layers if (window := window_of(layer)) for path in (layer.keys, layer.values)}
    if not windows:
        raise ExportCompatError(
            f"cache='window': no layer of the cache of {name} slides, or its transformers is before 4.56, which has no "
            "such layers; leave out cache='window' (--cache window)"
        )
    if _MASK not in aligned.trees:
        raise ExportCompatError(
            f"cache='window': {name} was called without {_MASK}, and only its length says how many tokens are in the "
            "past; observe calls that have one, or leave out cache='window' (--cache window)"
        )
    if min(windows.values()) < _LEAST:
        raise ExportCompatError(
            f"cache='window': a layer of {name} has a window of {min(windows.values())} tokens, and {_LEAST} is the "
            "smallest; leave out cache='window' (--cache window)"
        )
    names = aligned.names()
    return {names[path]: window for path, window in windows.items()}


def within_windows(aligned: Aligned, windows: Mapping[str, int]) -> Aligned:
    """Return calls whose cache has what is in the windows alone.

    Args:
        aligned: the calls, with the full past.
        windows: in tokens, by the name of an input.
    """
    paths = {path: windows[name] for path, name in aligned.names().items() if name in windows}
    calls = [_cropped(call, paths) for call in aligned.calls]
    return replace(aligned, calls=calls, donors=_cropped(aligned.donors, paths), windows=paths)


def results_within(records: list[Record], aligned: Aligned) -> list[Record]:
    """Return calls whose results have what is in the windows alone."""
    names = aligned.names()
    presents = {present_name(names[path]): window for path, window in aligned.windows.items()}
    paths = {path: presents[name] for path, name in output_names(aligned).items() if name in presents}

    def cropped(record: Record) -> Record:
        return replace(record, outputs=replace(record.outputs, tensors=_cropped(record.outputs.tensors, paths)))

    return [cropped(record) for record in records] if paths else records


def _cropped(tensors: Mapping[str, Any], windows: Mapping[str, int]) -> dict[str, Any]:
    return {path: in_window(leaf, windows[path]) if path in windows else leaf for path, leaf in tensors.items()}
