"""transformers' own registration of `DynamicCache` as a pytree node, for a case that does without ours."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def has_registration() -> bool:
    """Say whether the installed transformers can register `DynamicCache`, or has done so when it was imported."""
    import transformers.cache_utils as caches
    from torch.utils._pytree import SUPPORTED_NODES

    return caches.DynamicCache in SUPPORTED_NODES or _registration() is not None


def _registration() -> Callable[[], None] | None:
    try:
        executorch = importlib.import_module("transformers.integrations.executorch")
    except ImportError:
        # The module is younger than 4.44.
        return None
    return getattr(executorch, "register_dynamic_cache_export_support", None)


@contextmanager
def official_registration() -> Iterator[None]:
    """Let transformers register `DynamicCache` as a pytree node, and take that back afterwards."""
    from exportcompat.registry import parse_target

    (slot,) = parse_target("pytree(transformers.cache_utils:DynamicCache)", "official").slots(())
    before = slot.read()
    register = _registration()
    if register is None:
        # Releases to 4.55 register the class when they are imported.
        yield
        return
    register()
    try:
        yield
    finally:
        slot.restore(before)
