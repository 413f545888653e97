"""The tensors that a graph is traced with, by the name of the argument: while it is traced, they have no values."""

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

_SAMPLES: WeakKeyDictionary[Any, Mapping[str, Any]] = WeakKeyDictionary()


def keep_sample(mode: Any, arguments: Mapping[str, Any]) -> None:
    """Keep the arguments of a call as long as the `FakeTensorMode` lives in which a graph is made of it."""
    _SAMPLES[mode] = arguments


def sample_value(name: str) -> Any:
    """Return an argument of the call that a graph is traced with; None if there is none, or nothing is traced."""
    from torch._guards import detect_fake_mode

    mode = detect_fake_mode()
    return None if mode is None else _SAMPLES.get(mode, {}).get(name)
