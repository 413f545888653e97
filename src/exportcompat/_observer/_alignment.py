"""Put the observed calls side by side: the same arguments in each, and what a call did not have."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from itertools import pairwise
from typing import Any

from exportcompat._extras import require
from exportcompat._verification import PAST, PAST_ARGUMENT, cache_names
from exportcompat.patches.toolkit.cache_names import CACHES, cache_name
from exportcompat.registry import ExportCompatError, NoCacheError

from ._record import Part, Record, names_of
from ._tree import Tree, flatten

_TOKENS = ("input_ids", "inputs_embeds")
GROWING = ("key", "value", "0", "1")
"""Names of leaves of a cache that are keys or values."""
INDEXING = ("index_key",)
"""Names of leaves of a cache that are keys of an indexer, which has one head."""
POSITIONS = ("index_position",)
"""Names of leaves that are the positions of an indexer's keys: of time, height and width."""

_OF_MEDIA = {
    "image_sizes": "pixel_values",
    "image_position_ids": "pixel_values",
    "video_position_ids": "pixel_values_videos",
}
"""Arguments that say something of images or videos alone, and the argument that has these."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Aligned:
    """The calls side by side.

    Attributes:
        trees: structure by argument, in the order of the signature.
        constants: by path; the same in every call.
        calls: the tensors of each call by path; a call may lack some.
        donors: one tensor for each path, from the call that has most of it.
        is_decoder: there are tokens and a cache, and no encoder but what a `TextDecoder` is given.
        outputs: the structure of the richest result.
        windows: in tokens, by the path of a tensor of the cache that holds no more than the last `window - 1`.
    """

    trees: dict[str, Tree]
    constants: dict[str, Any]
    calls: list[dict[str, Any]]
    donors: dict[str, Any]
    is_decoder: bool
    outputs: Tree
    windows: Mapping[str, int] = field(default_factory=dict)

    @property
    def cache(self) -> str:
        """The argument that is a cache; empty if there is none."""
        return cache_name(self.trees)

    @property
    def paths(self) -> list[str]:
        """The paths of all tensors, in the order of torch."""
        return [path for tree in self.trees.values() for path in tree.leaves() if path not in self.constants]

    def shapes(self, path: str) -> list[Shape | None]:
        """Return the shape in each call."""
        return [None if (tensor := call.get(path)) is None else tuple(tensor.shape) for call in self.calls]

    def argument(self, path: str) -> str:
        """Return the argument that a path belongs to."""
        return next(name for name in self.trees if path == name or path.startswith(f"{name}."))

    def names(self) -> dict[str, str]:
        """Return the name of each path in an exported file."""
        paths = self.paths
        cache = [path for path in paths if self.argument(path) == self.cache]
        names = [path.replace(self.cache, PAST_ARGUMENT, 1) for path in cache]
        names = names if not is_pairs(cache) else cache_names(PAST, len(cache) // 2)
        return {**{path: path for path in paths}, **dict(zip(cache, names, strict=True))}


def is_pairs(paths: list[str]) -> bool:
    """Say whether a cache is a sequence of pairs without names."""
    return bool(paths) and all(path.rpartition(".")[2] in ("0", "1") for path in paths)


def align(
    records: list[Record],
    signature: Signature,
    missing: Mapping[str, Any],
    *,
    is_pair: bool = False,
    own: Collection[str] = (),
) -> Aligned:
    """Put `records` side by side.

    Args:
        records: the calls.
        signature: of the method.
        missing: values for arguments that some calls do not have.
        is_pair: the calls are those of a `TextDecoder`.
        own: arguments that a decoder's interface has, and that the model makes better itself.

    Raises:
        ExportCompatError: there is none; constants, ranks or structures differ; a missing argument has a name that the
            method does not take; an encoder-decoder was observed as a whole; a decoder was given whole texts again.
    """
    if not records:
        raise ExportCompatError("no call was observed; run the model inside `with observer(model):`")
    inputs = [record.inputs for record in records]
    _check_missing(missing, signature)
    trees = _trees(inputs, records, missing)
    constants = _constants(inputs, signature)
    is_decoder = _is_decoder(trees, is_pair=is_pair)
    if "encoder_outputs" in trees and cache_name(trees):
        raise ExportCompatError(
            "the calls are those of an encoder-decoder as a whole; all but the first ignore `encoder_outputs`, and a "
            "graph cannot: observe and export exportcompat.TextDecoder(model) and model.get_encoder()"
        )
    calls = [_without_sizes(_tensors(part, missing), trees) for part in inputs]
    if is_decoder:
        _check_new_tokens(calls, trees)
        trees = {**trees, **_completed(calls, trees, [name for name in signature.parameters if name not in own])}
    trees = {name: trees[name] for name in _ordered(trees, signature)}
    donors = _representatives([*calls, *(record.outputs.tensors for record in records)], trees)
    outputs = max((record.outputs.trees[""] for record in records), key=_size)
    aligned = Aligned(trees, constants, calls, donors, is_decoder, outputs)
    _check_ranks(aligned)
    return aligned


def _check_missing(missing: Mapping[str, Any], signature: Signature) -> None:
    known = list(signature.parameters)
    for name in missing:
        if name not in known and not names_of(signature, Parameter.VAR_KEYWORD):
            raise ExportCompatError(f"missing={{{name!r}: ...}} is no argument of the method; it takes {known}")


def _trees(inputs: list[Part], records: list[Record], missing: Mapping[str, Any]) -> dict[str, Tree]:
    """Return the richest structure of each argument; a cache that was always empty has that of the result."""
    found: dict[str, Tree] = {}
    for name, tree in _candidates(inputs, records, missing):
        if name not in found or _size(tree) > _size(found[name]):
            found[name] = tree
    for index, part in enumerate(inputs):
        for name, tree in part.trees.items():
            paths, wanted = list(tree.leaves()), list(found[name].leaves())
            # A cache may have its states before the first call, and its keys and values after it.
            is_begun = name in CACHES and set(paths) < set(wanted)
            if paths and paths != wanted and not is_begun:
                raise ExportCompatError(
                    f"argument {name!r} has {len(paths)} tensors in call {index} ({_some(paths)}) and {len(wanted)} in "
                    f"another ({_some(wanted)}); one graph takes one structure: observe calls that agree"
                )
    # `generate` hands an empty cache to models that have no use for one, and that stays empty.
    return {name: tree for name, tree in found.items() if _size(tree) or name not in CACHES}


def _candidates(inputs: list[Part], records: list[Record], missing: Mapping[str, Any]) -> Iterator[tuple[str, Tree]]:
    for part in inputs:
        yield from part.trees.items()
    yield from ((name, flatten(name, value)[0]) for name, value in missing.items())
    names = {name for part in inputs for name, tree in part.trees.items() if not _size(tree)}
    has_leaves = {name for part in inputs for name, tree in part.trees.items() if _size(tree)}
    for record in records:
        for child in record.outputs.trees[""].children or ():
            if child.path in names - has_leaves:
                yield child.path, child


def _size(tree: Tree) -> int:
    return len(list(tree.leaves()))


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + (", ..." if len(paths) > 3 else "")


def _constants(inputs: list[Part], signature: Signature) -> dict[str, Any]:
    """Return the constants of all calls; what is inside an argument counts where a call has the argument."""
    found = {path: value for part in inputs for path, value in part.constants.items()}
    for path in found:
        values = {index: text for index, part in enumerate(inputs) if (text := _constant(part, path, signature))}
        (first, wanted), *others = values.items()
        for index, text in others:
            if text != wanted:
                raise ExportCompatError(
                    f"argument {path!r} is {wanted} in call {first} and {text} in call {index}; a graph holds one "
                    "value: observe calls that agree, or make it a tensor"
                )
    return found


def _constant(part: Part, path: str, signature: Signature) -> str:
    """Return what a call has at a path, as text; nothing if it lacks the argument that the path is inside of."""
    if path in part.constants:
        return repr(part.constants[path])
    if path in part.trees or path in part.tensors:
        return "a tensor"
    if "." in path:
        return ""
    parameter = signature.parameters.get(path)
    return "not given" if parameter is None or parameter.default is Parameter.empty else repr(parameter.default)


def _is_decoder(trees: Mapping[str, Tree], *, is_pair: bool) -> bool:
    has_encoder = not is_pair and any(name.startswith(("encoder_", "decoder_")) for name in trees)
    return bool(cache_name(trees)) and any(name in trees for name in _TOKENS) and not has_encoder


def _tensors(part: Part, missing: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors of a call, and those of `missing` for arguments that it did not have."""
    absent = {name: value for name, value in missing.items() if name not in part.trees}
    extra = {path: leaf for name, value in absent.items() for path, leaf in flatten(name, value)[1].items()}
    return {**part.tensors, **extra}


def _without_sizes(call: dict[str, Any], trees: Mapping[str, Tree]) -> dict[str, Any]:
    """Return a call without the sizes and places of images that it does not have.

    `generate` of some models passes them on. Eager does not look at them then, and in a graph they would be of more
    images than there are.
    """
    unused = {name for name, media in _OF_MEDIA.items() if media in trees and media not in call}
    return {path: tensor for path, tensor in call.items() if path not in unused}


def _tokens(call: Mapping[str, Any]) -> Any:
    return next((call[name] for name in _TOKENS if name in call), None)


def _past(call: Mapping[str, Any], trees: Mapping[str, Tree]) -> int:
    """Return how many tokens the keys of a call have; 0 where there are none."""
    leaves = trees[cache_name(trees)].leaves()
    keys = next((call.get(path) for path in leaves if path.rpartition(".")[2] in GROWING), None)
    return int(keys.shape[2]) if keys is not None and keys.dim() == 4 else 0


def _check_new_tokens(calls: list[dict[str, Any]], trees: Mapping[str, Tree]) -> None:
    """Refuse calls that have the whole text beside a cache of most of it: one token more each time, in both.

    `forward` cuts such a text by the length of the cache, and a graph has the sample's lengths.
    """
    sizes = [(_tokens(call).shape[1], _past(call, trees)) for call in calls if _tokens(call) is not None]
    for (early, before), (late, after) in pairwise(sizes):
        if late == early + 1 and after == before + 1 and 1 < early <= before + 1:
            raise NoCacheError(
                f"each call has the whole text ({late} tokens) beside a cache of {after}, and a graph takes new tokens "
                "alone: the model cuts the text itself",
                "observe calls that have new tokens alone, if the model takes them",
            )


def _completed(calls: list[dict[str, Any]], trees: Mapping[str, Tree], taken: Collection[str]) -> dict[str, Tree]:
    """Give every call the mask and the positions that a decoder's interface has, where they are among those `taken`.

    transformers leaves out a mask without padding from 5.x on, and older releases leave out positions: what is filled
    in is what the model assumes then.
    """
    torch = require("torch", "torch")
    for call in calls:
        tokens = _tokens(call)
        if tokens is None:
            continue
        (batch, new), past = tokens.shape[:2], _past(call, trees)
        made = {"dtype": torch.int64, "device": tokens.device}
        positions = torch.arange(past, past + new, **made).expand(batch, new).contiguous()
        for name, value in (("attention_mask", torch.ones(batch, past + new, **made)), ("position_ids", positions)):
            if name in taken:
                call.setdefault(name, value)
    return {name: Tree(name) for name in ("attention_mask", "position_ids") if name in taken}


def _ordered(trees: Iterable[str], signature: Signature) -> list[str]:
    """Return the arguments in the order of the signature; torch.export wants kwargs and shapes in that order."""
    places = {name: place for place, name in enumerate(signature.parameters)}
    return sorted(trees, key=lambda name: places.get(name, len(places)))


def _representatives(sources: list[dict[str, Any]], trees: Mapping[str, Tree]) -> dict[str, Any]:
    paths = [path for tree in trees.values() for path in tree.leaves()]
    return {path: _largest([source[path] for source in sources if path in source]) for path in paths}


def _largest(tensors: list[Any]) -> Any:
    return max(tensors, key=lambda tensor: int(tensor.numel()), default=None)


def _check_ranks(aligned: Aligned) -> None:
    for path in aligned.paths:
        ranks = {index: len(shape) for index, shape in enumerate(aligned.shapes(path)) if shape is not None}
        if len(set(ranks.values())) > 1:
            raise ExportCompatError(
                f"argument {aligned.argument(path)!r}: {path!r} has another number of axes in some calls "
                f"(call: axes {ranks}); one graph takes one: observe calls that agree"
            )
