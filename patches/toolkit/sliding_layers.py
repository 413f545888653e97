"""Sliding layers of caches: in a scope they keep their full past, elsewhere they forget what is out of the window."""

from typing import Any

_GROWING = ("DynamicSlidingWindowLayer", "LinearAttentionAndSlidingWindowAttentionLayer")


def window_of(layer: Any) -> int | None:
    """Return the window of a layer that grows up to it, in tokens; None for any other layer."""
    return layer.sliding_window if type(layer).__name__ in _GROWING else None


def has_full_past(layer: Any) -> bool:
    """Say whether a sliding layer still holds every token that it has counted."""
    # A layer that forgets in a graph counts by symbols, of which nothing must be asked.
    if getattr(layer, "forgets", False):
        return False
    held = 0 if layer.keys is None else layer.keys.shape[-2]
    return not getattr(layer, "record_past", False) and bool(layer.cumulative_length == held)


def full_window(cache: Any) -> int | None:
    """Return the window of a cache whose layers all slide by the same window and have their full past, else None.

    Args:
        cache: a cache of transformers 4.56 or later, or None.
    """
    from transformers.cache_utils import DynamicSlidingWindowLayer

    layers = getattr(cache, "layers", ())
    if not all(isinstance(layer, DynamicSlidingWindowLayer) and has_full_past(layer) for layer in layers):
        return None
    windows = {layer.sliding_window for layer in layers}
    return windows.pop() if len(windows) == 1 else None
