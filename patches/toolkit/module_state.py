"""What a module and its helpers hold beside tensors' values: attributes and tables. Both can be given back."""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_TABLES = (dict, OrderedDict, defaultdict, set, list, deque)
"""What a module keeps parameters, buffers, modules and hooks in, and models their own tables and logs."""

_HOLDERS = (*_TABLES, tuple)
"""What tables are looked for in."""

_Table = tuple[Any, Any]
"""A table, and a copy of it: what it held."""

_State = tuple[Any, dict[str, Any], list[_Table]]
"""A module or a helper of one, its attributes, and the tables that it holds, those in other tables included."""

_Left = list[list[_State]]
"""What models had before tries that failed."""

_LEFT: ContextVar[_Left | None] = ContextVar("_LEFT", default=None)
"""What a call around this one gives back at its end, if there is such a call."""


@contextmanager
def kept_through() -> Iterator[None]:
    """Let `kept_for_next_try` leave a model alone after an error; give it back at the end what it had before."""
    left: _Left = []
    token = _LEFT.set(left)
    try:
        yield
    finally:
        _LEFT.reset(token)
        for states in reversed(left):
            _give_back_all(states)


def is_with_next_try() -> bool:
    """Say whether a call around this one tries again, in another way, what fails."""
    return _LEFT.get() is not None


@contextmanager
def kept_for_next_try(model: Any) -> Iterator[None]:
    """Give a model its state back; after an error inside of `kept_through`, take new tensors away, and no more.

    What is no tensor, such as hooks and the marks that they are there, the next try may need.
    """
    states, left = _states(model), _LEFT.get()
    try:
        yield
    except BaseException:
        if left is None:
            _give_back_all(states)
        else:
            _give_back_tensors(states)
            left.append(states)
        raise
    else:
        _give_back_all(states)


@contextmanager
def preserved(model: Any) -> Iterator[None]:
    """Give every module of `model` its attributes back at the end, by reference, and its tables what they had."""
    states = _states(model)
    try:
        yield
    finally:
        _give_back_all(states)


def _states(model: Any) -> list[_State]:
    modules, known = list(getattr(model, "modules", list)()), set[int]()
    return [(owner, dict(owner.__dict__), _tables(owner, known)) for owner in [*modules, *_helpers(modules)]]


def _helpers(modules: list[Any]) -> list[Any]:
    """Return the plain objects that modules hold and whose classes are beside their own: these keep tensors, too."""
    held = [(module, value) for module in modules for value in vars(module).values() if hasattr(value, "__dict__")]
    found = {id(value): value for module, value in held if type(value).__module__ == type(module).__module__}
    return list(found.values())


def _give_back_all(states: list[_State]) -> None:
    for module, attributes, tables in states:
        give_back(module.__dict__, attributes)
        for table, before in tables:
            _refill(table, before)


def _give_back_tensors(states: list[_State]) -> None:
    """Give back what has become another tensor, as an attribute or in a table, and leave the rest as it is."""
    for module, attributes, tables in states:
        names = _new_tensors(module.__dict__, attributes)
        now = {name: value for name, value in module.__dict__.items() if name not in names}
        give_back(module.__dict__, {**now, **{name: attributes[name] for name in names & attributes.keys()}})
        for table, before in tables:
            if _has_new_tensor(table, before):
                _refill(table, before)


def _new_tensors(after: dict[str, Any], before: dict[str, Any]) -> set[str]:
    from torch import Tensor

    return {name for name, value in after.items() if isinstance(value, Tensor) and value is not before.get(name)}


def _has_new_tensor(table: Any, before: Any) -> bool:
    from torch import Tensor

    known = {id(value) for value in _values(before)}
    return any(isinstance(value, Tensor) and id(value) not in known for value in _values(table))


def _refill(table: Any, before: Any) -> None:
    table.clear()
    if isinstance(table, list | deque):
        table.extend(before)
    else:
        table.update(before)


def _tables(owner: Any, known: set[int]) -> list[_Table]:
    """Return the tables that an object holds, and those in them or in tuples, which are not `known` yet."""
    found: list[_Table] = []
    waiting = [value for value in owner.__dict__.values() if type(value) in _HOLDERS]
    while waiting:
        table = waiting.pop()
        if id(table) not in known:
            known.add(id(table))
            found += [(table, table.copy())] if type(table) in _TABLES else []
            waiting += [value for value in _values(table) if type(value) in _HOLDERS]
    return found


def _values(table: Any) -> list[Any]:
    return list(table.values() if isinstance(table, dict) else table)


def give_back(namespace: dict[str, Any], before: dict[str, Any]) -> None:
    """Make a namespace hold what it held before, by reference, and nothing else."""
    for name in namespace.keys() - before.keys():
        del namespace[name]
    for name, value in before.items():
        if namespace.get(name, preserved) is not value:
            namespace[name] = value
