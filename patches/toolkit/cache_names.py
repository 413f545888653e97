"""The names that a cache has as an argument of a model, and as a part of its result."""

from collections.abc import Iterable, Mapping
from typing import Any

CACHES = ("cache", "past_key_values", "cache_params", "past_key_value")
"""From 5.24 on it is `cache`. Before, Mamba's models had the third name, and layers to 4.55 the last."""

STATE = "state"
"""RWKV's cache, in every release: a list of tensors, `(batch, channels, layers)` each. Models of sounds, and those that
move a robot by images and a text, have arguments of this name that are no caches of a text."""

_TOKENS, _BESIDE_TEXT = "input_ids", {"pixel_values", "input_values", "input_features"}


def cache_name(names: Iterable[str]) -> str:
    """Return the name of a cache among those of parameters or of results; empty if there is none."""
    known = set(names)
    found = next((name for name in CACHES if name in known), "")
    is_of_text = {STATE, _TOKENS} <= known and not known & _BESIDE_TEXT
    return found or (STATE if is_of_text else "")


def cache_of(given: Mapping[str, Any]) -> Any:
    """Return the cache among the bound arguments of a call, also if it was given by a name of older releases."""
    # Who wraps `forward` meets an old name before upstream has renamed it.
    behind = given.get("kwargs")
    everything = {**(behind if isinstance(behind, Mapping) else {}), **given}
    return everything.get(cache_name(name for name, value in everything.items() if value is not None))
