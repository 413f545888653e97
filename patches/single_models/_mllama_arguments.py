"""The arguments of Mllama's methods, as one graph for texts with and without images needs them."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from exportcompat.patches.toolkit.cache_names import cache_name, cache_of
from exportcompat.patches.toolkit.wrapping import when_traced

_BESIDE = ("aspect_ratio_mask", "aspect_ratio_ids")
_MASK = "cross_attention_mask"


def with_images_or_none(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of Mllama take images or none while it is traced."""
    signature = inspect.signature(original)
    change = _model_arguments if _MASK in signature.parameters else _attention_arguments
    asks_for_places = "cache_position" in signature.parameters and change is _model_arguments

    def traced(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        given |= given.pop("kwargs", {})
        change(given)
        if asks_for_places and given.get("cache_position") is None:
            given["cache_position"] = _places(given)
        # Older releases look for some arguments among those by name.
        return original(given.pop("self"), **given)

    return when_traced(original, traced)


def _model_arguments(given: dict[str, Any]) -> None:
    """Let what is beside the images have a row for each, and the mask over them one for each text."""
    pixels, mask = given.get("pixel_values"), given.get(_MASK)
    if pixels is None:
        return
    # Upstream says what is missing.
    for name in (name for name in _BESIDE if given.get(name) is not None):
        given[name] = _as_long(given[name], 0, pixels.shape[0])
    text = _text(given)
    if mask is not None and text is not None:
        rows = text.shape[0]
        given[_MASK] = torch.cat([mask, mask.new_zeros(rows, *mask.shape[1:])]).narrow(0, 0, rows)


def _text(given: dict[str, Any]) -> Any:
    """Return the tokens of a call, or their embeddings."""
    tokens = given.get("input_ids")
    return given.get("inputs_embeds") if tokens is None else tokens


def _places(given: dict[str, Any]) -> Any:
    """Return the places of new tokens, `(sequence,)`; older releases choose rows of the mask over images by them."""
    text, cache = _text(given), cache_of(given)
    past = 0 if cache is None else cache.get_seq_length()
    return torch.arange(past, past + text.shape[1], device=text.device)


def _attention_arguments(given: dict[str, Any]) -> None:
    """Let the mask be as long as the keys, and one key that nobody sees stand behind them.

    ONNX Runtime has no attention to none at all.
    """
    mask, states = given.get("attention_mask"), given.get("cross_attention_states")
    name = cache_name(name for name, value in given.items() if value is not None)
    if mask is None or states is None or not name:
        return
    length = given[name].get_seq_length(given["self"].layer_idx) + states.shape[0] * states.shape[1] // mask.shape[0]
    unseen = torch.finfo(mask.dtype).min
    given["attention_mask"] = torch.nn.functional.pad(_as_long(mask, -1, length), (0, 1), value=unseen)
    given[name] = _OneMore(given[name])


class _OneMore:
    """A cache that has a key and a value of zeros behind those of an image layer; they are not kept."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def update(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Update the cache; return keys and values, `(batch, heads, length + 1, channels)`."""
        keys, values = self._cache.update(*args, **kwargs)
        return _with_zeros(keys), _with_zeros(values)


def _with_zeros(states: Any) -> Any:
    return torch.cat([states, states.new_zeros(*states.shape[:2], 1, states.shape[3])], 2)


def _as_long(tensor: Any, axis: int, length: Any) -> Any:
    """Return the first `length` of a tensor, which has no others; if it has, a look-up is out of range."""
    own = tensor.shape[axis]
    number, wanted = (torch.full((), size, dtype=torch.int64, device=tensor.device) for size in (own, length))
    index = torch.arange(length, device=tensor.device)
    return tensor.index_select(axis, torch.where(number == wanted, index, own))
