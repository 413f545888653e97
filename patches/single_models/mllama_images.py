"""Mllama's keys of images are in its cache or in the call, and one graph is to serve texts with and without images.

Symptom: `The size of tensor a (s7 + (((260*s99)//s36))) must match the size of tensor b (260)` in the attention to
images; with that mended, `Integer division by zero` in a call without images.
Cause: the first call has images and no past, and later calls have the past; a text without images skips the layers that
attend to images. The masks say how many images there are by sizes of their own, and that these agree is not known.
What is done: while it is traced, masks and ids are looked up by the number of images, and the mask over images by the
length of the keys and with a row of zeros for each text that has none, which is as if the layer were skipped. Where two
sizes differ otherwise, which eager refuses, a look-up is out of range, which ONNX Runtime refuses.
Can go: when upstream makes the mask of the keys that there are.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from exportcompat.patches.toolkit.cache_names import cache_name, cache_of
from exportcompat.patches.toolkit.records import source
from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import PatchingSpec

_BESIDE = ("aspect_ratio_mask", "aspect_ratio_ids")
_MASK = "cross_attention_mask"


def patch_forward(original: Callable[..., Any]) -> Callable[..., Any]:
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
    pixels, mask, text = given.get("pixel_values"), given.get(_MASK), given.get("input_ids")
    if pixels is None:
        return
    for name in _BESIDE:
        given[name] = _as_long(given[name], 0, pixels.shape[0])
    text = given.get("inputs_embeds") if text is None else text
    if mask is not None and text is not None:
        rows = text.shape[0]
        given[_MASK] = torch.cat([mask, mask.new_zeros(rows, *mask.shape[1:])]).narrow(0, 0, rows)


def _places(given: dict[str, Any]) -> Any:
    """Return the places of new tokens, `(sequence,)`; older releases choose rows of the mask over images by them."""
    text = given.get("input_ids")
    text = given["inputs_embeds"] if text is None else text
    cache = cache_of(given)
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


SPECS = (
    PatchingSpec(
        id="mllama-images",
        targets=(
            "transformers.models.mllama.modeling_mllama:MllamaModel.forward",
            "transformers.models.mllama.modeling_mllama:MllamaTextCrossAttention.forward",
        ),
        replacement=f"{__name__}:patch_forward",
        requires=("transformers>=4.55", "torch>=2.6"),
        reason="Keys of images are in the cache or in the call, and a mask is as long as both together: no graph.",
        upstream=tuple(source("models/mllama/modeling_mllama.py", tag) for tag in ("v4.57.6", "v5.24.0")),
        proofs=("mllama_export",),
        kind="wrap",
    ),
)
