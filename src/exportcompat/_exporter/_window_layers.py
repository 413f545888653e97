"""Sliding layers of a cache that forget what is out of the window, in a graph.

The layer of transformers counts the tokens that it has dropped in Python, and in a graph that number is the sample's.
Here it follows from the shapes of a call: the mask is as long as the whole text, so what is before the new tokens and
not in the layer was dropped. Places in masks are then those of the text, with left padding too.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from exportcompat._extras import require
from exportcompat._verification import WINDOWS, present_name
from exportcompat.patches.toolkit.cache_names import cache_of
from exportcompat.patches.toolkit.sliding_layers import window_of

_MASK = "attention_mask"
_TOKENS = ("input_ids", "inputs_embeds")


@contextmanager
def window_layers(model: Any, windows: Mapping[str, int]) -> Iterator[None]:
    """Let the sliding layers of the cache that a model is called with hold the last `window - 1` tokens.

    Args:
        model: an `nn.Module`.
        windows: in tokens, by the name of an input; empty for layers with their full past.
    """
    if not windows:
        yield
        return
    hooks = [
        model.register_forward_pre_hook(_begin, with_kwargs=True),
        model.register_forward_hook(_end, with_kwargs=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def name_windows(program: Any, windows: Mapping[str, int]) -> None:
    """Give the tokens of layers that hold a window a name where they leave the graph; torch has a long term for them.

    Args:
        program: a `torch.onnx.ONNXProgram`.
        windows: in tokens, by the name of an input.
    """
    names = {present_name(name): f"window_{window}" for name, window in windows.items()}
    for value in program.model.graph.outputs:
        if value.name in names:
            value.shape[2] = names[value.name]


def window_facts(windows: Mapping[str, int]) -> dict[str, str]:
    """Return what a file says of its windows."""
    return {WINDOWS: json.dumps(windows)} if windows else {}


def _begin(_: Any, __: Any, given: dict[str, Any]) -> None:
    tokens = next(given[name] for name in _TOKENS if given.get(name) is not None)
    past = given[_MASK].shape[1] - tokens.shape[1]
    for layer in cache_of(given).layers:
        if window_of(layer):
            layer.__class__ = _forgetting(type(layer))
            layer.cumulative_length = past


def _end(_: Any, __: Any, given: dict[str, Any], ___: Any) -> None:
    """Give the layers their class back, by which the cache is taken apart."""
    for layer in cache_of(given).layers:
        if getattr(layer, "forgets", False):
            layer.__class__ = type(layer).__mro__[1]
            layer.cumulative_length = layer.keys.shape[-2]


def _forgetting(cls: type) -> type:
    """Return a class of layers whose counter is a size of the call."""
    return type(
        f"Forgetting{cls.__name__}", (cls,), {"forgets": True, "update": _update, "get_mask_sizes": _mask_sizes}
    )


def _update(self: Any, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    """Keep the last `window - 1` tokens, and return those that were there and the new ones, `(batch, heads, ...)`."""
    torch = require("torch", "torch")
    keys, values = torch.cat([self.keys, key_states], -2), torch.cat([self.values, value_states], -2)
    self.cumulative_length += key_states.shape[-2]
    first = torch.sym_max(keys.shape[-2] - (self.sliding_window - 1), 0)
    self.keys, self.values = keys[:, :, first:], values[:, :, first:]
    return keys, values


def _mask_sizes(self: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return how many keys a call has, and which place in the text the first of them has."""
    utils: Any = require("transformers.cache_utils", "transformers")
    whole: Callable[..., tuple[Any, Any]] = utils.DynamicLayer.get_mask_sizes
    dropped = self.cumulative_length - self.keys.shape[-2]
    return whole(self, *args, **kwargs)[0] - dropped, dropped
