"""Export a model whose cache no graph can have for whole texts, where nobody has asked for a cache."""

import warnings
from collections.abc import Callable, Mapping

from exportcompat._observer import OBSERVED, InputObserver, Inputs, no_cache_facts, refused
from exportcompat._sample_inputs import WITH_PAST
from exportcompat.patches.toolkit.cache_names import CACHES
from exportcompat.registry import NoCacheError

from ._steps import Exported


def has_calls(given: InputObserver | Inputs) -> bool:
    """Say whether a caller has made the calls, with a cache or without: an observer, or inputs that hold a cache."""
    if isinstance(given, InputObserver):
        return True
    calls = [given] if isinstance(given, Mapping) else given
    return any(name in call for name in CACHES for call in calls)


def or_for_whole_texts(make: Callable[[NoCacheError | None], Exported], *, is_asked: bool) -> Exported:
    """Make an export, or, where no graph with the model's cache is right, one without it, with a warning.

    Args:
        make: makes it, given why there is no cache, or None for an export with one.
        is_asked: a cache was asked for, so that the refusal is what the caller gets.

    Raises:
        NoCacheError: no graph with the cache is right, and one was asked for.
    """
    try:
        return make(None)
    except NoCacheError as refusal:
        if is_asked:
            raise
        # What fails here has the refusal as its context.
        made = make(refusal)
        warnings.warn(refused(refusal), stacklevel=3)
        return made


def with_no_cache(about: Mapping[str, str], observer: InputObserver) -> dict[str, str]:
    """Return the facts about a file, with what it says of a cache that is not there; its task is one without a past."""
    found = no_cache_facts(observer)
    task = about.get("task", "").removesuffix(WITH_PAST) if OBSERVED in found else ""
    return {**about, **found, **({"task": task} if task else {})}
