"""Slots: single places that can be read, written and put back exactly as they were."""

import inspect
import sys
from collections.abc import Callable, Hashable, Mapping, MutableMapping
from typing import Any, Final, Protocol

ABSENT: Final = type("Absent", (), {"__repr__": lambda self: "ABSENT", "__slots__": ()})()
"""Stands for "there was nothing of its own here": the way back is to delete."""

Rewrap = Callable[[Any], Any]
Lookup = tuple[Mapping[Any, Any], Any]
"""A namespace or table, and a key that it may have."""


def lookups(owner: Any, name: str) -> list[Lookup]:
    """Return where an attribute is looked for, up to the first place that has it."""
    found: list[Lookup] = []
    for holder in owner.__mro__ if isinstance(owner, type) else (owner, *type(owner).__mro__):
        space = getattr(holder, "__dict__", {})
        found.append((space, name))
        if name in space:
            break
    return found


class Slot(Protocol):
    """One place.

    Attributes:
        label: how people name the place.
        key: equal for two slots exactly when they are the same place.
        owner: the class or module whose attribute is written; None for other places.
        takes: the function whose own signature callers have to meet; None means the original's.
        is_shared: several specs may wrap what is here, one around the other.
    """

    label: str
    key: Hashable
    owner: object
    takes: Any
    is_shared: bool

    def read(self) -> Any:
        """Return what is stored in this very place (not inherited), or `ABSENT`."""

    def original(self) -> tuple[Any, Rewrap]:
        """Return what a caller gets from here, and how to wrap a replacement so that it is got the same way."""

    def lookups(self) -> list[Lookup]:
        """Return where `original` looks; none if that cannot be said."""

    def write(self, value: Any) -> None:
        """Put `value` here."""

    def restore(self, saved: Any) -> None:
        """Make the place what it was when `read` returned `saved`."""


class AttributeSlot:
    """An attribute of a module or class, by its own namespace: descriptors survive, inherited stays inherited."""

    def __init__(self, owner: object, name: str, label: str, takes: Any = None, is_shared: bool = False) -> None:
        self.owner = owner
        self.is_shared = is_shared
        self.name = name
        self.takes = takes
        self.label = label
        self.key: Hashable = (id(owner), name)

    def read(self) -> Any:
        return vars(self.owner).get(self.name, ABSENT)

    def original(self) -> tuple[Any, Rewrap]:
        raw = inspect.getattr_static(self.owner, self.name)
        if isinstance(raw, (staticmethod, classmethod)):
            return raw.__func__, type(raw)
        if isinstance(raw, property):
            return raw.fget, lambda fget: property(fget, raw.fset, raw.fdel, raw.__doc__)
        return raw, lambda value: value

    def lookups(self) -> list[Lookup]:
        return lookups(self.owner, self.name)

    def write(self, value: Any) -> None:
        setattr(self.owner, self.name, value)

    def restore(self, saved: Any) -> None:
        if saved is not ABSENT:
            setattr(self.owner, self.name, saved)
        elif self.name in vars(self.owner):
            delattr(self.owner, self.name)


class ItemSlot:
    """An item of a mapping.

    A mapping may keep its items in several dicts and fall back from one to the next, as transformers'
    `GeneralInterface` does: an item that can be read may not be there to delete. So the dicts themselves are saved.
    """

    owner: object = None
    takes: Any = None
    is_shared = False

    def __init__(self, mapping: MutableMapping[Any, Any], item: str, label: str) -> None:
        self.mapping = mapping
        self.item = item
        self.label = label
        self.key: Hashable = (id(mapping), item)

    def read(self) -> Any:
        return [(store, store.get(self.item, ABSENT)) for store in self._stores()]

    def original(self) -> tuple[Any, Rewrap]:
        return self.mapping[self.item], lambda value: value

    def lookups(self) -> list[Lookup]:
        return [(store, self.item) for store in self._stores()]

    def write(self, value: Any) -> None:
        self.mapping[self.item] = value

    def restore(self, saved: Any) -> None:
        known = {id(store) for store, _ in saved}
        # A mapping may make a dict when it is first written to.
        added = [(store, ABSENT) for store in self._stores() if id(store) not in known]
        for store, value in [*saved, *added]:
            _put(store, self.item, value)

    def _stores(self) -> list[dict[Any, Any]]:
        if isinstance(self.mapping, dict):
            return [self.mapping]
        levels: list[Any] = [self.mapping, *type(self.mapping).__mro__]
        return [value for level in levels for value in getattr(level, "__dict__", {}).values() if type(value) is dict]


class PytreeSlot:
    """The registration of a class as a node of `torch.utils._pytree` and `torch.fx._pytree`.

    `torch.utils._pytree.register_pytree_node` is public in all but its module's name; it refuses a class that is
    registered already, and nothing public takes a registration back. So the tables behind it are saved and restored.
    The C++ pytree (used by `torch.compile` when optree is installed) is left alone: export does not use it.
    """

    owner: object = None
    takes: Any = None
    is_shared = False

    def __init__(self, cls: type, label: str) -> None:
        self.cls = cls
        self.label = label
        self.key: Hashable = (id(cls), "pytree node")

    def read(self) -> Any:
        return tuple(table.get(self.cls, ABSENT) for table in self._tables()), tuple(self._names())

    def original(self) -> tuple[Any, Rewrap]:
        return None, lambda value: value

    def lookups(self) -> list[Lookup]:
        return [(table, self.cls) for table in self._tables()]

    def write(self, value: Mapping[str, Any]) -> None:
        self._clear()
        sys.modules["torch.utils._pytree"]._private_register_pytree_node(self.cls, **value)
        flatten = value["flatten_fn"]
        sys.modules["torch.fx._pytree"].register_pytree_flatten_spec(self.cls, lambda node, spec: flatten(node)[0])

    def restore(self, saved: Any) -> None:
        entries, names = saved
        for table, entry in zip(self._tables(), entries, strict=True):
            _put(table, self.cls, entry)
        table = _table("utils", "SERIALIZED_TYPE_TO_PYTHON_TYPE")
        for name in {*names, *self._names()}:
            _put(table, name, self.cls if name in names else ABSENT)

    def _clear(self) -> None:
        for table in self._tables():
            table.pop(self.cls, None)
        for name in self._names():
            del _table("utils", "SERIALIZED_TYPE_TO_PYTHON_TYPE")[name]

    def _names(self) -> list[str]:
        names = _table("utils", "SERIALIZED_TYPE_TO_PYTHON_TYPE")
        return [name for name, cls in list(names.items()) if cls is self.cls]

    def _tables(self) -> list[dict[Any, Any]]:
        return [
            _table("utils", "SUPPORTED_NODES"),
            _table("utils", "SUPPORTED_SERIALIZED_TYPES"),
            _table("fx", "SUPPORTED_NODES"),
            _table("fx", "SUPPORTED_NODES_EXACT_MATCH"),
        ]


def _table(package: str, name: str) -> dict[Any, Any]:
    return getattr(sys.modules[f"torch.{package}._pytree"], name, {})


def _put(store: dict[Any, Any], key: Any, value: Any) -> None:
    if value is ABSENT:
        store.pop(key, None)
    else:
        store[key] = value
