"""The cache of `generate` by the name that the code of a checkpoint has for it.

From transformers 5.24 on `generate` hands `cache` to `prepare_inputs_for_generation`. Code that comes with a checkpoint
has its own such method, which knows `past_key_values`: it leaves the cache out, and computes the whole text each time.
Where it has none, that of transformers hands `cache` on to its `forward`, whose `**kwargs` swallow it.
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
    """Let `generate` give its cache to methods of the model that know it by an older name; the model is as before."""
    original: Any = getattr(model, _METHOD, None)
    given, passed_on = _older_name(original), _older_name(getattr(model, "forward", None))
    if not callable(original) or not (given or passed_on) or _METHOD in vars(model):
        yield
        return

    @functools.wraps(original)
    def prepare(*args: Any, **kwargs: Any) -> Any:
        return _renamed(original(*args, **_renamed(kwargs, given)), passed_on)

    vars(model)[_METHOD] = prepare
    try:
        yield
    finally:
        vars(model).pop(_METHOD, None)


def _older_name(method: Any) -> str:
    """Return the name that a method has for the cache, if it is not the one of today, or an empty one."""
    known = inspect.signature(method).parameters if callable(method) else {}
    return "" if _NEW in known else cache_name(known)


def _renamed(arguments: Any, old: str) -> Any:
    return {old if old and name == _NEW else name: value for name, value in arguments.items()}
