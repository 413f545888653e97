"""Calls that nobody made: at sizes, and with padding, that an export has not seen, and around each bound of a file."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from exportcompat._api import apply_patches
from exportcompat._extras import require
from exportcompat._text_config import text_config
from exportcompat._verification import Discrepancy, Program, matched, placed

from . import _export_sample
from ._bounds import Condition, sizes_around
from ._compared_call import Observed, compared_row, first_line, input_paths, may_lack_results
from ._dynamic_axes import BATCH, Axes, are_patches
from ._embedded_tokens import TOKENS, embeddings_of
from ._record import Part, Record, take_result
from ._text_only_decoder import placeholders

_COUNTS = (1, 3)
"""Rows of a call, and images where they are not as many."""

_IMAGES = "pixel_values"

_LONG = (TOKENS, "input_values")
"""Inputs of the shape `(batch, length)`."""

_FEWER = 3
"""Tokens or samples that a call has less than the longest that was observed."""

_MASK = "attention_mask"
_PADDED = 4
"""One in so many items of the first row is padding."""


@dataclass(frozen=True)
class _Call:
    """One call: the sizes of its axes, its tensors by path, and what to call it."""

    label: str
    sizes: Mapping[str, int]
    tensors: Mapping[str, Any]
    group: str


class MadeUpCalls:
    """Compares a file with eager on calls that are made up.

    Args:
        observed: what was seen of the model.
        file: the file.
        names: the names of the results by path.
        tolerance: the largest absolute difference; None for the one of the type.
    """

    def __init__(self, observed: Observed, file: Program, names: dict[str, str], tolerance: float | None) -> None:
        self._observed, self._file, self._names, self._tolerance = observed, file, names, tolerance
        calls = observed.aligned.calls
        self._richest = max(range(len(calls)), key=lambda index: len(calls[index]))
        self._base = _export_sample.call(observed.aligned, observed.axes, self._richest)
        paths = input_paths(observed.aligned)
        self._inputs = {name: paths[other] for name, other in matched(file.inputs, paths, "the inputs").items()}
        self._free = self._free_in_the_file()
        named = [*observed.axes.items(), *self._free.items()]
        self._sizes = {name: self._base[path].shape[axis] for path, axes in named for axis, name in axes.items()}

    def _free_in_the_file(self) -> Axes:
        """Return the axes that a file takes in any size, by its own name for them, and that no call has shown to vary.

        Axes of one name and one size vary together.
        """
        known, found = {name for axes in self._observed.axes.values() for name in axes.values()}, {}
        sizes: dict[str, int] = {}
        for item, path in self._inputs.items():
            named = {}
            for axis, size in enumerate(self._file.inputs[item]):
                own, seen = f"{path}_{axis}", self._base[path].shape[axis]
                if isinstance(size, int) or axis in self._observed.axes.get(path, {}):
                    continue
                is_own = not size or size in known or sizes.setdefault(size, seen) != seen
                named[axis] = own if is_own else size
            found[path] = named
        return found

    def around_bounds(self, found: Sequence[Condition]) -> Iterator[Discrepancy]:
        """Yield comparisons of the richest call at sizes on both sides of each condition."""
        for condition in found:
            if condition.holds(self._sizes):
                for sizes in sizes_around(condition, self._sizes):
                    yield self._compared(self._call(sizes, "calls around bounds"))

    def unseen(self, notes: list[str]) -> Iterator[Discrepancy]:
        """Yield comparisons at batches of 1 and 3, at another length of a text or a sound, and with padding.

        Where no call had every argument there are none: eager leaves out what is not there, and does not take it empty.

        Args:
            notes: is given a sentence for each call that eager itself refuses.
        """
        if len(self._observed.aligned.calls[self._richest]) < len(self._observed.aligned.paths):
            return
        for call in [*self._other_sizes(), *self._padded()]:
            yield from self._taken(call, notes)
        for name in dict.fromkeys(name for axes in self._free.values() for name in axes.values()):
            yield from self._resized(name, notes)

    def _taken(self, call: _Call, notes: list[str]) -> Iterator[Discrepancy]:
        """Yield the comparison of a call, or add a note that eager refuses it."""
        row = self._compared(call)
        if row.error.startswith("eager: "):
            notes.append(f"not compared: {row.call}; {row.error}")
        else:
            yield row

    def _resized(self, name: str, notes: list[str]) -> Iterator[Discrepancy]:
        """Yield comparisons at twice the size of an axis, and at one that is no multiple; one refusal is enough."""
        size = self._sizes[name]
        for other in (2 * size, size - _FEWER):
            if other > 1:
                call = self._call({**self._sizes, name: other}, "calls of other sizes")
                found = list(self._taken(replace(call, label=f"made up: {name} {other}"), notes))
                if not found:
                    return
                yield from found

    def _other_sizes(self) -> Iterator[_Call]:
        for name in dict.fromkeys((BATCH, self._images)):
            together = {name, *(self._beside_images() if name == self._images else ())}
            for count in _COUNTS if self._is_free(name) and not self._has_places(name) else ():
                if count not in self._seen(name):
                    yield self._call({**self._sizes, **dict.fromkeys(together, count)}, "calls of other sizes")
        for name in self._lengths():
            seen = self._seen(name)
            length = max(seen) - _FEWER
            if self._is_free(name) and length > 1 and length not in seen:
                yield self._call({**self._sizes, name: length}, "calls of other sizes")

    @property
    def _images(self) -> str:
        """The name of the axis that counts images; rows of two axes are patches, whose number follows from sizes."""
        has_patches = _IMAGES in self._base and are_patches(_IMAGES, self._base[_IMAGES])
        return BATCH if has_patches else self._observed.axes.get(_IMAGES, {}).get(0, BATCH)

    def _beside_images(self) -> set[str]:
        """Return the names of axes that count rows beside those of images, such as of their masks and their sizes.

        Eager may take one row for several images, and broadcasts it then; a graph need not.
        """
        if self._images == BATCH:
            return set()
        first = {axes[0] for axes in self._observed.axes.values() if 0 in axes}
        return {name for name in first - {BATCH} if self._sizes[name] == self._sizes[self._images]}

    def _has_places(self, name: str) -> bool:
        """Say whether an axis counts images alone, and the texts have places for so many of them and no others."""
        tokens = self._base.get(TOKENS)
        if tokens is None or name != self._images or self._observed.axes.get(TOKENS, {}).get(0) == name:
            return False
        return any(
            bool((tokens == token).any()) for token in placeholders(getattr(self._observed.model, "config", None))
        )

    def _lengths(self) -> list[str]:
        """Return the names of the axes that are the length of a text or of the samples of a sound."""
        found = (self._observed.axes.get(path, {}).get(1) for path in _LONG)
        return [name for name in found if name is not None]

    def _seen(self, name: str) -> set[int]:
        """Return the sizes of an axis in the calls that were observed."""
        axes, calls = self._observed.axes.items(), self._observed.aligned.calls
        places = [(path, axis) for path, named in axes for axis, other in named.items() if other == name]
        return {int(call[path].shape[axis]) for call in calls for path, axis in places if path in call}

    def _is_free(self, name: str) -> bool:
        """Say whether a file takes any size of an axis: it may have been made with fewer axes that are dynamic."""
        places = [
            self._file.inputs[item][axis]
            for item, path in self._inputs.items()
            for axis, other in self._observed.axes.get(path, {}).items()
            if other == name
        ]
        return bool(places) and not any(isinstance(size, int) for size in places)

    def _padded(self) -> Iterator[_Call]:
        """Yield the richest call with padding behind its first row, if it has a mask that is all ones."""
        mask = self._base.get(_MASK)
        if mask is None or mask.dim() != 2 or mask.is_floating_point() or not bool(mask.all()):
            return
        count = mask.shape[1] // _PADDED
        if count:
            padded = {**self._base, _MASK: mask.clone(), **self._padded_tokens(count)}
            padded[_MASK][0, -count:] = 0
            yield _Call(f"made up: padding {count}", self._sizes, padded, "calls with padding")

    def _padded_tokens(self, count: int) -> dict[str, Any]:
        """Return the tokens whose first row is shorter, with its own last token and the model's padding behind it.

        Of some models the tokens tell what is padding and not the mask: they count positions by it (RoBERTa), or pool
        the state of the last token that is none (decoders that classify). Where eager would refuse such tokens, they
        stay: places of images are as many as the images, and a token of padding may have no row in the table.
        """
        tokens, token = self._base.get(TOKENS), _padding_token(self._observed.model)
        if tokens is None or token is None or tokens.shape != self._base[_MASK].shape:
            return {}
        places = placeholders(getattr(self._observed.model, "config", None))
        if any(bool((tokens[0, -count - 1 :] == place).any()) for place in places):
            return {}
        padded = tokens.clone()
        padded[0, -count - 1], padded[0, -count:] = tokens[0, -1], token
        return {TOKENS: padded}

    def _call(self, sizes: Mapping[str, int], group: str) -> _Call:
        axes, aligned = self._observed.axes, self._observed.aligned
        named = {path: {**axes[path], **self._free.get(path, {})} for path in aligned.paths}
        wanted = {path: {axis: sizes[name] for axis, name in named[path].items()} for path in aligned.paths}
        tensors = {path: _export_sample.resized(self._base[path], wanted[path]) for path in aligned.paths}
        return _Call("made up: " + ", ".join(f"{name} {size}" for name, size in sizes.items()), sizes, tensors, group)

    def _compared(self, call: _Call) -> Discrepancy:
        """Compare one call; where eager refuses it, there is nothing to compare."""
        torch, observed = require("torch", "torch"), self._observed
        fields: dict[str, Any] = {"call": call.label, "group": call.group}
        begin = time.perf_counter()
        try:
            # A cache in the result is taken apart by what a scope registers.
            with torch.no_grad(), apply_patches():
                arguments = _export_sample.build(observed.aligned, call.tensors)
                result = take_result(getattr(observed.model, observed.method)(**arguments))
        except Exception as error:
            passed: dict[str, Any] = {"success": True, "absolute": 0.0, "relative": 0.0, "share": 0.0}
            return Discrepancy(**fields, **passed, sizes=call.sizes, error=f"eager: {first_line(error)}")
        record = Record(Part(), result, 0, time.perf_counter() - begin)
        feeds = {name: call.tensors[path] for name, path in self._inputs.items()}
        partly = may_lack_results(observed.aligned, self._file)
        outputs = placed(self._file.outputs, list(self._names.values()), partly=partly)
        row = compared_row(0, 1, record, self._file, feeds, outputs, self._names, self._tolerance)
        return replace(row, **fields, sizes=call.sizes)


def _padding_token(model: Any) -> int | None:
    """Return the token of padding of a model's texts; None if it has none, or none that has a row in its table."""
    config: Any = getattr(model, "config", None)
    found = getattr(text_config(config), "pad_token_id", None)
    weight = getattr(embeddings_of(model), "weight", None)
    is_known = type(found) is int and found >= 0 and (weight is None or found < weight.shape[0])
    return found if is_known else None
