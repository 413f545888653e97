"""`int`, `len`, `divmod` and functions of `math` for the modules of a model while it is captured: sizes stay sizes."""

import builtins
import functools
import inspect
import math
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

_LIBRARIES = ("torch", "numpy", "builtins", "typing", "collections", "functools", "exportcompat")
_FUNCTIONS = ("exp", "log", "log10", "log2", "sqrt")
"""Those of `math` that make a number of a size."""

_CALLS = {
    "int": re.compile(r"\bint\("),
    "math": re.compile(rf"\bmath\.(?:{'|'.join(_FUNCTIONS)})\("),
    **{name: re.compile(rf"(?<!\.)\b{name}\(") for name in ("divmod", "len", *_FUNCTIONS)},
}
"""What a module calls that is replaced in it, by name."""

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


def length(items: Any) -> Any:
    """Return `len(items)`; of a tensor with a dynamic first axis its size, which `__len__` may not return."""
    import torch

    size = items.shape[0] if isinstance(items, torch.Tensor) and items.dim() else None
    return size if isinstance(size, torch.SymInt) else builtins.len(items)


def quotient_and_remainder(number: Any, divisor: Any) -> Any:
    """Return `divmod(number, divisor)`, which sizes have as two operators alone."""
    import torch

    is_symbolic = any(isinstance(item, (torch.SymInt, torch.SymFloat)) for item in (number, divisor))
    return (number // divisor, number % divisor) if is_symbolic else builtins.divmod(number, divisor)


def _exponential(number: Any) -> Any:
    return math.e**number


@dataclass
class _Logarithms:
    """The logarithms of sizes in one capture.

    Attributes:
        are_fixed: whether each is that of the sample.
        shapes: what has noted the symbols of the sizes.
    """

    are_fixed: bool = False
    shapes: list[Any] = field(default_factory=list)


_CURRENT: ContextVar[_Logarithms | None] = ContextVar("logarithms", default=None)


def _logarithm(number: Any, base: float = math.e) -> Any:
    import torch

    current = _CURRENT.get()
    if current is not None:
        current.shapes.append(number.node.shape_env)
    # A program may hold no logarithm of a size, but one of a tensor.
    return torch.scalar_tensor(number, dtype=torch.float64).log().item() / math.log(base)


def _are_fixed() -> bool:
    current = _CURRENT.get()
    return current is not None and current.are_fixed


def _root(number: Any) -> Any:
    return number**0.5


def _of_size(name: str, symbolic: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of `math` that gives sizes to `symbolic`."""
    numeric, is_logarithm = getattr(math, name), name.startswith("log")

    @functools.wraps(numeric)
    def function(number: Any, *args: Any) -> Any:
        import torch

        is_symbolic = isinstance(number, (torch.SymInt, torch.SymFloat)) and not (is_logarithm and _are_fixed())
        return symbolic(torch.sym_float(number), *args) if is_symbolic else numeric(number, *args)

    return function


_OF_SIZES = {
    "exp": _of_size("exp", _exponential),
    "log": _of_size("log", _logarithm),
    "log10": _of_size("log10", lambda number: _logarithm(number, 10)),
    "log2": _of_size("log2", lambda number: _logarithm(number, 2)),
    "sqrt": _of_size("sqrt", _root),
}


class _Math:
    """Stands for the module `math`, some of whose functions make numbers of sizes."""

    def __getattr__(self, name: str) -> Any:
        return _OF_SIZES.get(name) or getattr(math, name)


_OURS: dict[str, Any] = {
    "int": Whole,
    "len": length,
    "divmod": quotient_and_remainder,
    "math": _Math(),
    **_OF_SIZES,
}
_BEFORE: dict[str, Any] = {"math": math, **{name: getattr(math, name) for name in _FUNCTIONS}}
"""What a module has by that name; `int`, `len` and `divmod` are in no module."""
_LOCK = threading.Lock()
_USERS: dict[tuple[str, str], int] = {}
"""How many captures need something replaced, by the name of a module and the name in it."""


def capture(run: Callable[[], Any]) -> Any:
    """Return what a capture makes; where a model decides by a logarithm of a size, it is that of the sample.

    A program knows nothing of the logarithm that it computes, so that no branch can be taken by it. Without a scope
    the size is fixed then, or refused, and that is what the second capture does.
    """
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    first = _Logarithms()
    try:
        return _with_logarithms(first, run)
    except GuardOnDataDependentSymNode:
        if not first.shapes:
            raise
    for shapes in first.shapes:
        shapes.pending_fresh_unbacked_symbols.clear()
    return _with_logarithms(_Logarithms(are_fixed=True), run)


def _with_logarithms(logarithms: _Logarithms, run: Callable[[], Any]) -> Any:
    token = _CURRENT.set(logarithms)
    try:
        return run()
    finally:
        _CURRENT.reset(token)


@contextmanager
def keeping_sizes(model: Any) -> Iterator[None]:
    """Let `int(size)` and `len(tensor)` be sizes, in the modules of a model's classes and in those that they use."""
    places = [(module, name) for module in _modules_of(model) for name in _OURS if _is_place(module, name)]
    with _LOCK:
        for module, name in places:
            key = (module.__name__, name)
            _USERS[key] = _USERS.get(key, 0) + 1
            vars(module)[name] = _OURS[name]
    try:
        yield
    finally:
        with _LOCK:
            for module, name in places:
                key = (module.__name__, name)
                _USERS[key] -= 1
                if not _USERS[key] and vars(module).get(name) is _OURS[name]:
                    _put_back(module, name)


def _put_back(module: ModuleType, name: str) -> None:
    if name in _BEFORE:
        vars(module)[name] = _BEFORE[name]
    else:
        del vars(module)[name]


def _modules_of(model: Any) -> list[ModuleType]:
    classes = {cls for module in model.modules() for cls in type(module).__mro__}
    names = {cls.__module__ for cls in classes if not _is_library(cls.__module__)}
    # What is written outside the module of a class: rotary embeddings, masks, attention.
    names |= {name for own in names for name in _used(own)}
    return [sys.modules[name] for name in sorted(names) if name in sys.modules]


def _is_place(module: ModuleType, name: str) -> bool:
    """Say whether a module calls what is replaced, has no other of that name, and does not look at it as a type."""
    found = vars(module).get(name)
    is_own = found is _OURS[name] or found is _BEFORE.get(name)
    return is_own and _calls(_files(module), name)


def _files(module: ModuleType) -> tuple[str, ...]:
    """Return the file of a module; of a notebook, which has none, the cells that its functions and classes are of."""
    if file := getattr(module, "__file__", None):
        return (file,)
    own = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    found = [item for value in own for item in (vars(value).values() if isinstance(value, type) else (value,))]
    functions = [inspect.unwrap(item) for item in found if inspect.isfunction(item)]
    return tuple(sorted({function.__code__.co_filename for function in functions if inspect.isfunction(function)}))


# A capture asks for dozens of files, and their texts do not change.
@functools.lru_cache(maxsize=2048)
def _calls(files: tuple[str, ...], name: str) -> bool:
    import linecache

    source = "".join(line for file in files for line in linecache.getlines(file))
    is_type = name == "int" and _AS_A_TYPE.search(source)
    return bool(_CALLS[name].search(source)) and not is_type


def _is_library(name: str) -> bool:
    return name.partition(".")[0] in _LIBRARIES and not name.startswith("exportcompat.matrix")


def _used(name: str) -> set[str]:
    """Return the modules of the functions that a module knows by name."""
    values = list(vars(sys.modules[name]).values()) if name in sys.modules else []
    owners = {value.__module__ for value in values if inspect.isfunction(value) and value.__module__}
    return {owner for owner in owners if not _is_library(owner)}
