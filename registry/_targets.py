"""Targets: what a spec replaces, as strings that are resolved late and without importing anything."""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ._errors import AttributeMissingError, ClassMissingError, ModuleMissingError, SpecError
from ._packages import package_of
from ._slots import AttributeSlot, ItemSlot, PytreeSlot, Slot

_DOTTED = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_FORMS = {
    "attribute": re.compile(rf"(?P<module>{_DOTTED}):(?P<name>{_DOTTED})"),
    "item": re.compile(rf"(?P<module>{_DOTTED}):(?P<name>{_DOTTED})\[(?P<item>[^\[\]]+)\]"),
    "pytree": re.compile(rf"pytree\((?P<module>{_DOTTED}):(?P<name>{_DOTTED})\)"),
    "decorated": re.compile(rf"decorated\((?P<module>{_DOTTED}):(?P<name>[A-Za-z_]\w*)\)"),
    "imported": re.compile(rf"imported\((?P<module>{_DOTTED}):(?P<name>[A-Za-z_]\w*)\)"),
    "mentioning": re.compile(r"mentioning\((?P<module>[A-Za-z_]\w*):(?P<name>[A-Za-z_]\w*)\)"),
}


@dataclass(frozen=True)
class Target:
    """One parsed target.

    Attributes:
        text: as written in the spec.
        spec_id: the spec, for messages.
        module: the module that must be loaded before the target can be resolved.
        name: dotted name inside the module.
    """

    text: str
    spec_id: str
    module: str
    name: str

    @property
    def is_pytree(self) -> bool:
        """Say whether the target is a pytree node."""
        return False

    @property
    def is_spread(self) -> bool:
        """Say whether the target stands for places in any number of modules, those that are yet to come included."""
        return False

    @property
    def is_mention(self) -> bool:
        """Say whether the places are found by a word, so that there is no single source."""
        return False

    @property
    def package(self) -> str:
        """The package that the module is in, by the name under which it is installed."""
        return package_of(self.module)

    def is_loaded(self) -> bool:
        """Say whether the module has been imported to its end."""
        return is_ready(sys.modules.get(self.module))

    def require_module(self) -> None:
        """Check that a module that is not loaded exists, without importing it or its parents.

        Raises:
            ModuleMissingError: there is no such module.
        """
        if self.module not in sys.modules and not _can_import(self.module):
            raise ModuleMissingError(self._message(f"there is no module {self.module!r}"))

    def slots(self, modules: Iterable[ModuleType]) -> list[Slot]:
        """Return the places that this target stands for in loaded `modules`.

        Raises:
            ClassMissingError: the owner does not exist.
            AttributeMissingError: the attribute or item does not exist.
        """
        raise NotImplementedError

    def source(self) -> Any:
        """Return the function or class whose source tells whether the target is the one that was proved.

        None means that there is no single one.
        """
        raise NotImplementedError

    def _owner(self, parts: list[str]) -> Any:
        owner: Any = sys.modules[self.module]
        for depth, part in enumerate(parts):
            if not _has(owner, part):
                where = ".".join([self.module, *parts[:depth]])
                raise ClassMissingError(self._message(f"{where} has no {part!r} (looking for the owner)"))
            owner = getattr(owner, part)
        return owner

    def _function(self, kind: str) -> FunctionType:
        function = _namespace(sys.modules[self.module]).get(self.name)
        if not isinstance(function, FunctionType):
            raise AttributeMissingError(self._message(f"{self.module} has no {kind} {self.name!r}"))
        return function

    def _message(self, found: str) -> str:
        return (
            f"spec {self.spec_id!r}: target {self.text!r} does not resolve: {found}. The versions are in the spec's "
            "range, so the range or the target is wrong: exclude the id, and report it with your versions"
        )


class AttributeTarget(Target):
    """`pkg.mod:function` or `pkg.mod:Class.method`."""

    def slots(self, modules: Iterable[ModuleType]) -> list[Slot]:
        *parents, name = self.name.split(".")
        owner = self._owner(parents)
        where = ".".join([self.module, *parents])
        if not isinstance(owner, (ModuleType, type)):
            raise ClassMissingError(self._message(f"{where} is a {type(owner).__name__}: neither a class nor a module"))
        if not _has(owner, name):
            raise AttributeMissingError(self._message(f"{where} has no attribute {name!r}"))
        return [AttributeSlot(owner, name, self.text)]

    def source(self) -> Any:
        return self.slots(())[0].original()[0]


@dataclass(frozen=True)
class ItemTarget(Target):
    """`pkg.mod:MAPPING[key]`."""

    item: str

    def slots(self, modules: Iterable[ModuleType]) -> list[Slot]:
        mapping = self._owner(self.name.split("."))
        if not hasattr(mapping, "__setitem__"):
            raise ClassMissingError(self._message(f"{self.name} is a {type(mapping).__name__} and not a mapping"))
        if self.item not in mapping:
            raise AttributeMissingError(self._message(f"{self.name} has no item {self.item!r}"))
        return [ItemSlot(mapping, self.item, self.text)]

    def source(self) -> Any:
        return self.slots(())[0].original()[0]


class PytreeTarget(Target):
    """`pytree(pkg.mod:Class)`: the class as a node of torch's pytrees."""

    @property
    def is_pytree(self) -> bool:
        return True

    def slots(self, modules: Iterable[ModuleType]) -> list[Slot]:
        return [PytreeSlot(self._owner(self.name.split(".")), self.text)]

    def source(self) -> Any:
        # What is flattened is the state that the initialiser sets up.
        return self._owner(self.name.split(".")).__init__


class DecoratedTarget(Target):
    """`decorated(pkg.mod:decorator)`: every method that the decorator made.

    A decorator has run by the time its module is loaded, so replacing the decorator would change nothing, and its
    users differ from release to release. They are found by identity: a module that uses it has imported it by name.
    """

    @property
    def is_spread(self) -> bool:
        return True

    def slots(self, modules: Iterable[ModuleType]) -> list[Slot]:
        decorator = self.source()
        made = {const for const in decorator.__code__.co_consts if isinstance(const, CodeType)}
        # Written out rather than with `_namespace`: there are thousands of modules.
        none: dict[str, Any] = {}
        users = [module for module in modules if getattr(module, "__dict__", none).get(self.name) is decorator]
        return [slot for module in users for slot in _decorated(module, made)]

    def source(self) -> Any:
        return self._function("decorator")


class ImportedTarget(Target):
    """`imported(pkg.mod:function)`: the name of a function in every module that has imported it from its own.

    To replace it where it is defined would not reach those who have imported it before, and would leave it behind with
    those who import it meanwhile.
    """

    @property
    def is_spread(self) -> bool:
        return True

    def slots(self, modules: Iterable[ModuleType]) -> list[Slot]:
        function = self.source()
        none: dict[str, Any] = {}
        found = ((module, getattr(module, "__dict__", none).get(self.name)) for module in modules)
        users = [module for module, value in found if value is not None and function in _chain(value)]
        return [
            AttributeSlot(user, self.name, f"{user.__name__}:{self.name}")
            for user in users
            if user.__name__ != self.module
        ]

    def source(self) -> Any:
        return self._function("function")


class MentioningTarget(Target):
    """`mentioning(package:name)`: every method of the package's classes whose code has the name.

    The name is a local variable, an attribute or a global of the code itself; what the method calls does not count. It
    is for code that upstream has copied from model to model, so that nothing but its wording holds it together. A
    method may have the words of several specs; then each wraps what the one before has made. The
    package includes `<package>_modules`, where transformers puts the code that comes with a checkpoint. There is no
    single source, so there is no fingerprint: it is fit for ranges whose releases are all known.
    """

    @property
    def is_mention(self) -> bool:
        return True

    @property
    def is_spread(self) -> bool:
        return True

    def slots(self, modules: Iterable[ModuleType]) -> list[Slot]:
        prefixes = (f"{self.module}.", f"{self.module}_modules.")
        users = [item for item in modules if str(getattr(item, "__name__", "")).startswith(prefixes)]
        return [slot for module in users for slot in _mentioning(module, self.name)]

    def source(self) -> Any:
        return None


def parse_target(text: str, spec_id: str) -> Target:
    """Parse a target.

    Raises:
        SpecError: `text` has none of the six forms.
    """
    for form, pattern in _FORMS.items():
        if match := pattern.fullmatch(text):
            target: Target = _CLASSES[form](text, spec_id, **match.groupdict())
            return target
    raise SpecError(
        f"spec {spec_id!r}: target {text!r} has no known form; write 'pkg.mod:Class.method', 'pkg.mod:function', "
        "'pkg.mod:MAPPING[key]', 'pytree(pkg.mod:Class)', 'decorated(pkg.mod:decorator)', "
        "'imported(pkg.mod:function)' or 'mentioning(pkg:name)'"
    )


def is_ready(module: ModuleType | None) -> bool:
    """Say whether `module` has been executed to its end."""
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


_CLASSES: dict[str, type[Any]] = {
    "attribute": AttributeTarget,
    "item": ItemTarget,
    "pytree": PytreeTarget,
    "decorated": DecoratedTarget,
    "imported": ImportedTarget,
    "mentioning": MentioningTarget,
}


def _has(owner: Any, name: str) -> bool:
    # A module's `__getattr__` may import, as that of a lazy package does.
    return name in _namespace(owner) if isinstance(owner, ModuleType) else hasattr(owner, name)


def _namespace(module: ModuleType) -> dict[str, Any]:
    return getattr(module, "__dict__", {})


def _decorated(module: ModuleType, made: set[CodeType]) -> Iterator[Slot]:
    for cls, name, function in _methods(module):
        if inner := next((item for item in _chain(function) if item.__code__ in made), None):
            # Callers meet what the decorator returned, whatever it was applied to.
            yield AttributeSlot(cls, name, f"{module.__name__}:{cls.__qualname__}.{name}", inner)


_MENTIONS: "WeakKeyDictionary[ModuleType, dict[str, list[tuple[type, str]]]]" = WeakKeyDictionary()
"""What was found in modules that have been executed, by name; the code of their methods does not change."""


def _mentioning(module: ModuleType, wanted: str) -> Iterator[Slot]:
    known = _MENTIONS.setdefault(module, {}) if is_ready(module) else {}
    if wanted not in known:
        known[wanted] = [(cls, name) for cls, name, function in _methods(module) if _mentions(function, wanted)]
    for cls, name in known[wanted]:
        yield AttributeSlot(cls, name, f"{module.__name__}:{cls.__qualname__}.{name}", is_shared=True)


def _mentions(function: FunctionType, wanted: str) -> bool:
    codes = (item.__code__ for item in _chain(function))
    return any(wanted in code.co_names or wanted in code.co_varnames for code in codes)


def _methods(module: ModuleType) -> Iterator[tuple[type, str, FunctionType]]:
    """Yield the functions in the classes that a module has made itself."""
    classes = dict.fromkeys(value for value in list(_namespace(module).values()) if isinstance(value, type))
    for cls in classes:
        if cls.__module__ == module.__name__:
            functions = [(name, value) for name, value in list(vars(cls).items()) if isinstance(value, FunctionType)]
            yield from ((cls, name, function) for name, function in functions)


def _chain(function: Any) -> Iterator[FunctionType]:
    """Yield a function and what it wraps, the outermost first."""
    while isinstance(function, FunctionType):
        yield function
        function = getattr(function, "__wrapped__", None)


def _can_import(name: str) -> bool:
    path: Any = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        prefix = ".".join(parts[:depth])
        loaded = sys.modules.get(prefix)
        spec = getattr(loaded, "__spec__", None) or _find_spec(prefix, path)
        if loaded is None and spec is None:
            return False
        path = getattr(loaded, "__path__", None) or getattr(spec, "submodule_search_locations", None)
        if path is None and depth < len(parts):
            return False
    return True


def _find_spec(name: str, path: Any) -> ModuleSpec | None:
    # importlib.util.find_spec would import the parents.
    finders = [finder for finder in list(sys.meta_path) if hasattr(finder, "find_spec")]
    found = (finder.find_spec(name, path) for finder in finders)
    return next((spec for spec in found if spec is not None), None)
