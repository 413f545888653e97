"""The cache of `generate` by the name that the code of a checkpoint has for it.

From transformers 5.24 on `generate` hands `cache` to `prepare_inputs_for_generation`. Code that comes with a checkpoint
has its own such method, which knows `past_key_values`: it leaves the cache out, and computes the whole text each time.
"""

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from exportcompat.patches.toolkit.cache_names import CACHES, cache_name

_METHOD = "prepare_inputs_for_generation"
_NEW = CACHES[0]


@contextmanager
def named_cache(model: Any) -> Iterator[None]:
    """Let `generate` give its cache to a method of the model that knows it by an older name; the model is as before."""
    original: Any = getattr(model, _METHOD, None)
    known = inspect.signature(original).parameters if callable(original) else {}
    old = "" if _NEW in known else cache_name(known)
    if not old or _METHOD in vars(model):
        yield
        return

    @functools.wraps(original)
    def prepare(*args: Any, **kwargs: Any) -> Any:
        named = {old if name == _NEW else name: value for name, value in kwargs.items()}
        return original(*args, **named)

    vars(model)[_METHOD] = prepare
    try:
        yield
    finally:
        vars(model).pop(_METHOD, None)
