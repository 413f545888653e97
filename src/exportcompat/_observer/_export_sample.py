"""Make the arguments that are traced: of the structure that was observed, with no dynamic axis of size 0 or 1.

A size of 0 or 1 answers questions that another size answers differently, and the answer stays in the graph.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from exportcompat._extras import require

from ._alignment import Aligned
from ._dynamic_axes import (
    ALL_STATES,
    PAST,
    PAST_STATES,
    PAST_WINDOW,
    SEQUENCE,
    STATES,
    TOTAL,
    Axes,
    absent_axis,
)
from ._tree import build_all

_LEAST = 2
_FACTOR = 3
_PARTLY = {STATES: 7, PAST_STATES: 4, ALL_STATES: 7}
"""Sizes for the states of an encoder in a call of its decoder."""


def sample(aligned: Aligned, axes: Axes) -> dict[str, Any]:
    """Return the tensors to trace, by path.

    The call that has most of the arguments is repeated along its dynamic axes until no size is below 2: what holds
    between its sizes and values (past + new = total, patches of an image) holds for a multiple too. What it lacks
    comes from other calls.
    """
    base = max(aligned.calls, key=lambda call: _richness(aligned, call))
    sizes = _sizes(aligned, axes, base)
    return {
        path: resized(base.get(path, aligned.donors[path]), {axis: sizes[name] for axis, name in axes[path].items()})
        for path in aligned.paths
    }


def last_call(aligned: Aligned, axes: Axes, new: int) -> dict[str, Any]:
    """Return the tensors of the last call by path, with other tokens behind its past: `new` of them."""
    tensors = call(aligned, axes, len(aligned.calls) - 1)
    short = {SEQUENCE: new, TOTAL: _measured(axes, tensors).get(PAST, 0) + new}
    return {
        path: resized(tensor, {axis: short[name] for axis, name in axes[path].items() if name in short})
        for path, tensor in tensors.items()
    }


def call(aligned: Aligned, axes: Axes, index: int) -> dict[str, Any]:
    """Return the tensors of one call by path; what it did not have is of size 0, and a state is all zeros."""
    tensors = aligned.calls[index]
    sizes = _measured(axes, tensors)
    return {path: tensors[path] if path in tensors else _absent(aligned, axes, path, sizes) for path in aligned.paths}


def absent(aligned: Aligned, axes: Axes, paths: Iterable[str], tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call with `tensors` does not have, by path: empty, or zeros where it goes with each token."""
    sizes = _measured(axes, tensors)
    return {path: _absent(aligned, axes, path, sizes) for path in paths}


def build(aligned: Aligned, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, given all tensors by path."""
    return build_all(aligned.trees, {**aligned.constants, **tensors})


def resized(tensor: Any, sizes: Mapping[int, int]) -> Any:
    """Return `tensor` repeated along some axes and cut to `sizes`; zeros where there is nothing to repeat."""
    torch = require("torch", "torch")
    shape = [sizes.get(axis, size) for axis, size in enumerate(tensor.shape)]
    if not tensor.numel():
        return torch.zeros(shape, dtype=tensor.dtype, device=tensor.device)
    counts = [-(-size // before) for size, before in zip(shape, tensor.shape, strict=True)]
    return tensor.repeat(counts)[tuple(slice(size) for size in shape)].contiguous() if shape else tensor


def _richness(aligned: Aligned, tensors: Mapping[str, Any]) -> tuple[int, int, int]:
    """Rank a call: first by arguments, a cache not counted, for it can be made of other calls; then by tensors."""
    filled = [path for path, tensor in tensors.items() if tensor.numel()]
    arguments = {aligned.argument(path) for path in filled} - {aligned.cache}
    return len(arguments), len(filled), sum(tensors[path].numel() for path in filled)


def _sizes(aligned: Aligned, axes: Axes, base: Mapping[str, Any]) -> dict[str, int]:
    """Return a size for each name, 2 or more, with past + sequence = total."""
    sizes = _measured(axes, base)
    factor = 1 if all(size == 0 or size >= _LEAST for size in sizes.values()) else _FACTOR
    for name, size in {**_measured(axes, aligned.donors), **sizes}.items():
        known = sizes.get(name, 0) * factor
        sizes[name] = known or max(size, _LEAST)
    if aligned.windows:
        # Some of the past is out of each window, so the one is not taken for the other.
        sizes[PAST] = max(size for name, size in sizes.items() if name.startswith((PAST, PAST_WINDOW))) + _LEAST
    if aligned.is_decoder and {SEQUENCE, TOTAL} <= sizes.keys():
        # States do not say how long the past is; a mask does.
        sizes[TOTAL] = sizes.get(PAST, _LEAST) + sizes[SEQUENCE]
    # A cache with a part of the states is neither the first call nor a later one, and nothing in it has size 0 or 1.
    return {**sizes, **{name: size for name, size in _PARTLY.items() if name in sizes and PAST_STATES in sizes}}


def _measured(axes: Axes, tensors: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for path, names in axes.items():
        for axis, name in names.items():
            if tensors.get(path) is not None:
                found.setdefault(name, int(tensors[path].shape[axis]))
    return found


def _absent(aligned: Aligned, axes: Axes, path: str, sizes: Mapping[str, int]) -> Any:
    donor, empty = aligned.donors[path], absent_axis(aligned, path)
    wanted = {axis: sizes.get(name, donor.shape[axis]) for axis, name in axes[path].items()}
    if empty is not None:
        wanted[empty] = 0
    shape = [wanted.get(axis, size) for axis, size in enumerate(donor.shape)]
    return donor.new_zeros(shape)
