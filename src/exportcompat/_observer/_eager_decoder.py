"""The results of the observed model: their names in a file, and the model as an eager decoder with its own cache."""

from collections.abc import Collection, Mapping
from inspect import Parameter, Signature
from typing import Any

from exportcompat._extras import require
from exportcompat._verification import LOGITS, PAST_ARGUMENT, present_name
from exportcompat.patches.toolkit.cache_names import STATE

from ._alignment import POSITIONS, Aligned
from ._dynamic_axes import past_axis
from ._embedded_tokens import embeddings_of
from ._growing_cache import has_fixed_cache
from ._last_keys import NOTE as LAST_KEYS
from ._last_keys import mask_makers, masks_of_last_keys
from ._padded_companion import NOTE, is_prompt, needs_companion, with_companion, without_companion
from ._tree import Tree

_KINDS = "token_type_ids"
_STATES, _PADDING = 11, 3
"""Length of the states of an encoder in a call that is made up, and of their padding."""


def output_names(aligned: Aligned) -> dict[str, str]:
    """Return the name of each result in an exported file, by path; those of a decoder as its interface has them."""
    paths = list(aligned.outputs.leaves())
    names = {
        path: f"output_{path}".rstrip("_").replace(".", "_") if path[:1] in "0123456789" else path for path in paths
    }
    # A result that is also an argument cannot have its name: a mask, or a cache beside the states of an encoder.
    taken = {*aligned.trees, *aligned.names().values()}
    names = {path: _free(name) if name in taken else name for path, name in names.items()}
    if not aligned.is_decoder:
        return names
    cache = _cache(aligned)
    past = [name for path, name in aligned.names().items() if aligned.argument(path) == aligned.cache]
    if cache is not None:
        names |= dict(zip(cache.leaves(), map(present_name, past), strict=True))
    return {**names, _logits(aligned, cache): LOGITS}


def _free(name: str) -> str:
    """Return another name for a result."""
    return present_name(name) if name.startswith(f"{PAST_ARGUMENT}.") else f"output_{name}"


def _cache(aligned: Aligned) -> Tree | None:
    """Return the part of the result that is the cache for the next call: by its name, or as large as the last one."""
    children = aligned.outputs.children or ()
    size = len(list(aligned.trees[aligned.cache].leaves()))
    named = [child for child in children if child.path == aligned.cache]
    alike = [child for child in children[1:] if len(list(child.leaves())) == size]
    return next(iter(named or alike), None)


def _logits(aligned: Aligned, cache: Tree | None) -> str:
    paths = list(aligned.outputs.leaves())
    held = set(cache.leaves()) if cache is not None else set()
    return LOGITS if LOGITS in paths else next((path for path in paths if path not in held), paths[0])


def cache_layers(aligned: Aligned) -> list[Any]:
    """Return the layers of a decoder's cache, with the paths of their tensors in place of these; none for others."""
    if not aligned.is_decoder:
        return []
    # A cache can be made of anything.
    cache = aligned.trees[aligned.cache].build(lambda path: path)
    return list(getattr(cache, "layers", ()))


def _may_be_left_out(signature: Signature, name: str) -> bool:
    """Say whether a call may do without an argument; what is passed on by `**kwargs` may be left out."""
    parameter = signature.parameters.get(name)
    return parameter is None or parameter.default is not Parameter.empty


def _part(result: Any, key: str) -> Any:
    """Return a part of a result, by its name or its place."""
    return result[int(key) if key.isdigit() else key]


def _made(result: Any, key: str) -> Any:
    """Return the cache of a result, None if it is not there."""
    try:
        return _part(result, key)
    except (KeyError, IndexError):
        return None


class EagerDecoder:
    """A model that was observed, called with the tensors of a decoder's interface.

    Args:
        model: the module.
        method: the observed method.
        aligned: what was observed.
        inputs: the inputs that the exported file takes; eager is given the same, and nothing else.
        width: number of tokens that there are logits for.
    """

    def __init__(
        self, model: Any, method: str, signature: Signature, aligned: Aligned, inputs: Collection[str], width: int
    ) -> None:
        self._call, self._aligned = getattr(model, method), aligned
        self._inputs = [name for name in inputs if name in aligned.trees]
        self._constants = {path: value for path, value in aligned.constants.items() if path in aligned.trees}
        self._makes_cache = _may_be_left_out(signature, aligned.cache)
        leaves = [path.rpartition(".")[2] for path in aligned.trees[aligned.cache].leaves()]
        has_states = aligned.cache == STATE or any("_state" in leaf for leaf in leaves)
        self._is_recomputed = has_states or has_fixed_cache(model)
        self._mask_makers = mask_makers(model, cache_layers(aligned))
        self._is_beyond_window = False
        # Not every model asks its configuration where nobody says whether it is to return its cache.
        self._cached, self._uncached = (
            {"use_cache": flag} if "use_cache" in signature.parameters else {} for flag in (True, False)
        )
        self._whole = self._cached if has_states else self._uncached
        # `generate` passes the kinds of tokens with every call, or with the first alone.
        self._has_kinds = None not in aligned.shapes(_KINDS)
        self._is_accompanied: bool | None = None
        self._device = next(iter(aligned.donors.values())).device
        cache = _cache(aligned)
        self._keys = (_logits(aligned, cache), aligned.cache if cache is None else cache.path)
        weight = getattr(embeddings_of(model), "weight", None)
        self.vocabulary = width if weight is None else min(width, int(weight.shape[0]))

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        """Return logits and cache; where the model makes its first cache itself, it is left to do so."""
        if self._is_recomputed:
            return self._recomputed(inputs, cache)
        torch = require("torch", "torch")
        is_told = cache is None or self._has_kinds
        tokens = {_KINDS: torch.zeros_like(inputs["input_ids"])} if is_told else {}
        # The model may be on another device than the comparison.
        given = {**tokens, **inputs}
        given = {name: given[name].to(self._device) for name in self._inputs if name in given}
        if self._is_accompanied is None and cache is None and is_prompt(given):
            self._is_accompanied = needs_companion(lambda call: self._results(call, None)[0], given)
        logits, past = self._results(with_companion(given) if self._is_accompanied else given, cache)
        found = without_companion(logits, inputs["input_ids"].shape[0]) if self._is_accompanied else logits
        return found.cpu(), past

    @property
    def notes(self) -> list[str]:
        """Return what there is to say of the calls that were made."""
        return [*([NOTE] if self._is_accompanied else []), *([LAST_KEYS] if self._is_beyond_window else [])]

    def _results(self, given: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        torch = require("torch", "torch")
        if cache is None and not self._makes_cache:
            cache = self._empty(given["input_ids"].shape[0])
        past = {} if cache is None else {self._aligned.cache: cache}
        with torch.no_grad(), masks_of_last_keys(self._mask_makers, cache) as cropped:
            result = self._call(**given, **{**self._cached, **self._constants}, **past)
        self._is_beyond_window |= bool(cropped)
        logits, made = _part(result, self._keys[0]), _made(result, self._keys[1])
        if made is None and cache is None:
            # Some code leaves it to `generate` to make the first cache.
            self._makes_cache = False
            return self._results(given, None)
        return logits, made

    def _recomputed(self, inputs: Mapping[str, Any], before: Any) -> tuple[Any, Any]:
        """Call the model on everything so far, as if it were the first call; that stands in place of the cache.

        In some releases layers with states go on with one token at a time alone, and forget about padding in a batch
        of one. Models with sliding layers that want a cache of fixed size are wrong with a growing one past the window.
        Layers with states are asked for a cache, as `generate` does: Zamba2 hides padding in another way without one.
        """
        torch = require("torch", "torch")
        given = {name: inputs[name].to(self._device) for name in self._inputs if name in inputs}
        parts = [given] if before is None else [before, given]
        whole = {name: torch.cat([part[name] for part in parts], 1) for name in given if name != "attention_mask"}
        whole |= {name: given[name] for name in given.keys() - whole.keys()}
        twice = {name: torch.cat([tensor, tensor]) for name, tensor in whole.items()}
        with torch.no_grad():
            result = self._call(**twice, **{**self._constants, **self._whole})
        key = self._keys[0]
        batch, new = inputs["input_ids"].shape
        return result[int(key) if key.isdigit() else key][:batch, -new:].cpu(), whole

    def others(self, batch: int, past: int) -> Mapping[str, Any]:
        """Return what a `TextDecoder` is given besides a text, with padding on the right of every second one."""
        donor = self._aligned.donors.get("encoder_hidden_states")
        if not self._aligned.is_decoder or donor is None:
            return {}
        torch = require("torch", "torch")
        states = torch.randn(batch, _STATES, donor.shape[2], generator=torch.Generator().manual_seed(batch))
        mask = torch.ones(batch, _STATES, dtype=torch.int64)
        mask[::2, -_PADDING:] = 0
        return {"encoder_hidden_states": states.to(donor.dtype), "encoder_attention_mask": mask}

    def _empty(self, batch: int) -> Any:
        return self._aligned.trees[self._aligned.cache].build(lambda path: self._zeros(path, batch))

    def _zeros(self, path: str, batch: int) -> Any:
        donor, past = self._aligned.donors[path], past_axis(self._aligned, path)
        rows = 1 if path.rpartition(".")[2] in POSITIONS else 0
        return donor.new_zeros(
            [batch if axis == rows else 0 if axis == past else size for axis, size in enumerate(donor.shape)]
        )
