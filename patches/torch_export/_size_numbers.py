"""`int` for the modules of a model while it is captured: a size stays a size."""

import builtins
import functools
import inspect
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_LIBRARIES = ("torch", "numpy", "builtins", "typing", "collections", "functools", "exportcompat")
_CALL = re.compile(r"\bint\(")
_AS_A_TYPE = re.compile(
    r"dtype\s*=\s*int\b(?!\()|\.(?:to|type|view|astype)\(\s*int\s*[,)]|\bis(?: not)? int\b|[!=]= int\b"
)
"""Where `int` is looked at as a type, another one would not do."""


class _Whole(type):
    """The type of `Whole`: it stands for `int` in every question, and makes ints, or sizes of sizes."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        import torch

        if len(args) == 1 and not kwargs and isinstance(args[0], (torch.SymInt, torch.SymFloat)):
            return torch.sym_int(args[0])
        return builtins.int(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, builtins.int)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, builtins.int)

    def __eq__(cls, other: object) -> bool:
        return other is builtins.int or other is cls

    def __hash__(cls) -> int:
        return hash(builtins.int)


class Whole(builtins.int, metaclass=_Whole):
    """Stands for `int` in a module."""


_LOCK = threading.Lock()
_USERS: dict[str, int] = {}
"""How many captures need `int` replaced, by the name of a module."""


@contextmanager
def keeping_sizes(model: Any) -> Iterator[None]:
    """Let `int(size)` be the size, in the modules that a model's classes come from and in those that they use."""
    modules = _modules_of(model)
    with _LOCK:
        for module in modules:
            _USERS[module.__name__] = _USERS.get(module.__name__, 0) + 1
            vars(module)["int"] = Whole
    try:
        yield
    finally:
        with _LOCK:
            for module in modules:
                _USERS[module.__name__] -= 1
                if not _USERS[module.__name__] and vars(module).get("int") is Whole:
                    del vars(module)["int"]


def _modules_of(model: Any) -> list[ModuleType]:
    classes = {cls for module in model.modules() for cls in type(module).__mro__}
    names = {cls.__module__ for cls in classes if not _is_library(cls.__module__)}
    # What is written outside the module of a class: rotary embeddings, masks, attention.
    names |= {name for own in names for name in _used(own)}
    found = [sys.modules[name] for name in sorted(names) if name in sys.modules]
    return [module for module in found if vars(module).get("int", Whole) is Whole and _calls_int(module)]


def _is_library(name: str) -> bool:
    return name.partition(".")[0] in _LIBRARIES and not name.startswith("exportcompat.matrix")


def _used(name: str) -> set[str]:
    """Return the modules of the functions that a module knows by name."""
    values = list(vars(sys.modules[name]).values()) if name in sys.modules else []
    owners = {value.__module__ for value in values if inspect.isfunction(value) and value.__module__}
    return {owner for owner in owners if not _is_library(owner)}


def _calls_int(module: ModuleType) -> bool:
    source = _source(getattr(module, "__file__", None) or "")
    return bool(_CALL.search(source)) and not _AS_A_TYPE.search(source)


@functools.lru_cache(maxsize=256)
def _source(file: str) -> str:
    import linecache

    return "".join(linecache.getlines(file))
