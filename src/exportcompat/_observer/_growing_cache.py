"""The growing cache in place of one of fixed size, which `generate` makes for sliding layers in some releases.

Gemma2, Gemma3, Cohere2 and Llama 4 have `cache_implementation="hybrid"` in their configurations, to transformers 4.52
or so. Such a cache has room for one length, and a graph of it would hold that room for ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_NAME = "cache_implementation"
_FIXED = ("hybrid", "hybrid_chunked", "sliding_window")
_ABSENT = object()


@contextmanager
def dynamic_cache(model: Any) -> Iterator[None]:
    """Let `generate` use a cache that grows, where the model's own configurations want one for sliding layers.

    Who asks `generate` itself for a cache of fixed size, or sets `"static"`, gets it.
    """
    changed = [(vars(found), vars(found).get(_NAME, _ABSENT)) for found in _configurations(model)]
    for names, _ in changed:
        names[_NAME] = None
    try:
        yield
    finally:
        for names, before in changed:
            if before is _ABSENT:
                del names[_NAME]
            else:
                names[_NAME] = before


def has_fixed_cache(model: Any) -> bool:
    """Say whether a model begins by itself with a cache of fixed size, or with none, because layers slide."""
    return any(True for _ in _configurations(model))


def _configurations(model: Any) -> Iterator[Any]:
    config = getattr(model, "config", None)
    for found in (getattr(model, "generation_config", None), config, getattr(config, "text_config", None)):
        if getattr(found, _NAME, None) in _FIXED:
            yield found
