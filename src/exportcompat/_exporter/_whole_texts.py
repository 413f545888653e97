"""Export a model whose cache no graph can have for whole texts, where nobody has asked for a cache."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from exportcompat._observer import InputObserver, Inputs, refused
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


def or_for_whole_texts(make: Callable[..., Exported], about: Mapping[str, str], *, is_asked: bool) -> Exported:
    """Make an export, or, where no graph with the model's cache is right, one without it, with a warning.

    Args:
        make: makes it, given `about` and `refusal`: why there is no cache, or None for an export with one.
        about: facts for the file.
        is_asked: a cache was asked for, so that the refusal is what the caller gets.

    Raises:
        NoCacheError: no graph with the cache is right, and one was asked for.
    """
    try:
        return make(about=about, refusal=None)
    except NoCacheError as error:
        if is_asked:
            raise
        refusal = error
    warnings.warn(refused(refusal), stacklevel=3)
    return make(about=_without_past(about), refusal=refusal)


def _without_past(about: Mapping[str, str]) -> dict[str, Any]:
    return {**about, **({"task": about["task"].removesuffix(WITH_PAST)} if "task" in about else {})}
