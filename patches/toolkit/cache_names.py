"""The names that a cache has as an argument of a model, and as a part of its result."""

from collections.abc import Iterable, Mapping
from typing import Any

CACHES = ("cache", "past_key_values", "cache_params", "past_key_value")
"""From 5.24 on it is `cache`. Before, Mamba's models had the third name, and layers to 4.55 the last."""

STATE = "state"
"""RWKV's cache, in every release: a list of tensors, `(batch, channels, layers)` each. Models of sounds and others have
arguments of this name that are no caches of a text."""

_TOKENS = "input_ids"


def cache_name(names: Iterable[str]) -> str:
    """Return the name of a cache among those of parameters or of results; empty if there is none."""
    known = set(names)
    found = next((name for name in CACHES if name in known), "")
    return found or (STATE if {STATE, _TOKENS} <= known else "")


def cache_of(given: Mapping[str, Any]) -> Any:
    """Return the cache among the bound arguments of a call, also if it was given by a name of older releases."""
    # Who wraps `forward` meets an old name before upstream has renamed it.
    behind = given.get("kwargs")
    everything = {**(behind if isinstance(behind, Mapping) else {}), **given}
    return everything.get(cache_name(name for name, value in everything.items() if value is not None))
