"""Targets: what a spec replaces, as strings that are resolved late and without importing anything."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ._errors import AttributeMissingError, ClassMissingError, ModuleMissingError, SpecError
from ._modules import Modules, namespace
from ._packages import package_of
from ._slots import ABSENT, AttributeSlot, ItemSlot, Lookup, PytreeSlot, Slot, lookups

_DOTTED = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_FORMS = {
    "attribute": re.compile(rf"(?P<module>{_DOTTED}):(?P<name>{_DOTTED})"),
    "item": re.compile(rf"(?P<module>{_DOTTED}):(?P<name>{_DOTTED})\[(?P<item>[^\[\]]+)\]"),
    "pytree": re.compile(rf"pytree\((?P<module>{_DOTTED}):(?P<name>{_DOTTED})\)"),
    "decorated": re.compile(rf"decorated\((?P<module>{_DOTTED}):(?P<name>[A-Za-z_]\w*)\)"),
    "imported": re.compile(rf"imported\((?P<module>{_DOTTED}):(?P<name>[A-Za-z_]\w*)\)"),
    "methods_using": re.compile(r"methods_using\((?P<module>[A-Za-z_]\w*):(?P<name>[A-Za-z_]\w*)\)"),
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

    def require_module(self, modules: Modules | None = None) -> None:
        """Check that a module that is not loaded exists, without importing it or its parents.

        Args:
            modules: what is loaded; what is found on the disk is kept with it.

        Raises:
            ModuleMissingError: there is no such module.
        """
        known = {} if modules is None else modules.once("paths", dict[str, Any])
        if self.module not in sys.modules and not _can_import(self.module, known):
            raise ModuleMissingError(self._message(f"there is no module {self.module!r}"))

    def slots(self, modules: Iterable[ModuleType]) -> list[Slot]:
        """Return the places that this target stands for in loaded `modules`.

        Raises:
            ClassMissingError: the owner does not exist.
            AttributeMissingError: the attribute or item does not exist.
        """
        raise NotImplementedError

    def lookups(self, modules: Modules) -> list[Lookup]:
        """Return where `slots` looks; as long as the same is there, it returns the same places.

        What is in a place itself is the slot's to say. The target is loaded, and `slots` was given `modules`.
        """
        return self._lookups(self.name.split("."))

    def counts(self) -> list[int]:
        """Return numbers that have to be the same, too."""
        return []

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

    def _lookups(self, parts: list[str]) -> list[Lookup]:
        owner: Any = sys.modules[self.module]
        found: list[Lookup] = []
        for part in parts:
            found += lookups(owner, part)
            owner = getattr(owner, part, None) if _has(owner, part) else None
        return found

    def _function(self, kind: str) -> FunctionType:
        function = namespace(sys.modules[self.module]).get(self.name)
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

    def lookups(self, modules: Modules) -> list[Lookup]:
        return self._lookups(self.name.split(".")[:-1])

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

    def lookups(self, modules: Modules) -> list[Lookup]:
        return self._lookups([*self.name.split("."), "__init__"])

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
        made = set(_made_by(decorator))
        users = [
            module for module in _modules(modules).having(self.name) if namespace(module).get(self.name) is decorator
        ]
        return [slot for module in users for slot in _decorated(module, made)]

    def lookups(self, modules: Modules) -> list[Lookup]:
        return [(namespace(module), self.name) for module in modules.having(self.name)]

    def counts(self) -> list[int]:
        # Every function that the decorator makes holds its code, so a method that is decorated later shows here.
        return [sys.getrefcount(code) for code in _made_by(self.source())]

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
        having = _modules(modules).having(self.name)
        users = [user for user in having if function in _chain(namespace(user).get(self.name))]
        return [
            AttributeSlot(user, self.name, f"{user.__name__}:{self.name}")
            for user in users
            if user.__name__ != self.module
        ]

    def lookups(self, modules: Modules) -> list[Lookup]:
        return [(namespace(module), self.name) for module in modules.having(self.name)]

    def source(self) -> Any:
        return self._function("function")


@dataclass(frozen=True)
class UsingTarget(Target):
    """`methods_using(package:name)`: every method of the package's classes whose code has the name.

    The name is a local variable, an attribute or a global of the code itself; what the method calls does not count. It
    is for code that upstream has copied from model to model, so that nothing but its wording holds it together. A
    method may have the words of several specs; then each wraps what the one before has made. The
    package includes `<package>_modules`, where transformers puts the code that comes with a checkpoint. There is no
    single source, so there is no fingerprint: it is fit for ranges whose releases are all known.
    """

    def __post_init__(self) -> None:
        # One walk looks for all of them.
        _WORDS.add(self.name)

    @property
    def is_mention(self) -> bool:
        return True

    @property
    def is_spread(self) -> bool:
        return True

    def slots(self, modules: Iterable[ModuleType]) -> list[Slot]:
        return [
            AttributeSlot(item.cls, item.name, item.label, is_shared=True)
            for item in _mentions(_modules(modules), self.module).get(self.name, ())
        ]

    def lookups(self, modules: Modules) -> list[Lookup]:
        return [(item.space, item.key) for item in _mentions(modules, self.module).get(self.name, ())]

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
        "'imported(pkg.mod:function)' or 'methods_using(pkg:name)'"
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
    "methods_using": UsingTarget,
}


def _has(owner: Any, name: str) -> bool:
    # A module's `__getattr__` may import, as that of a lazy package does.
    return name in namespace(owner) if isinstance(owner, ModuleType) else hasattr(owner, name)


def _decorated(module: ModuleType, made: set[CodeType]) -> Iterator[Slot]:
    for _, cls, name, function in _methods(module):
        if inner := next((item for item in _chain(function) if item.__code__ in made), None):
            # Callers meet what the decorator returned, whatever it was applied to.
            yield AttributeSlot(cls, name, f"{module.__name__}:{cls.__qualname__}.{name}", inner)


@dataclass(frozen=True)
class _Method:
    """A method whose code has a word: in `space`, the namespace of its module, its class is `key`."""

    space: dict[str, Any]
    key: str
    cls: type
    name: str

    @property
    def label(self) -> str:
        return f"{self.space['__name__']}:{self.cls.__qualname__}.{self.name}"


_Mentions = Mapping[str, list[_Method]]

_WORDS: set[str] = set()
"""The names of all targets of this form: they are looked for in one walk."""

_MENTIONS: "WeakKeyDictionary[ModuleType, tuple[frozenset[str], int, _Mentions]]" = WeakKeyDictionary()
"""What was found in modules that have been executed; the code of their methods does not change."""


def _mentions(modules: Modules, package: str) -> _Mentions:
    """Return the methods of a package by the words that their code has."""
    words = frozenset(_WORDS)

    def find() -> _Mentions:
        found: dict[str, list[_Method]] = {}
        for module in modules.within(package):
            for word, methods in _mentions_in(module, words).items():
                found.setdefault(word, []).extend(methods)
        return found

    return modules.once(("mentions", package, words), find, _are_there)


def _are_there(found: _Mentions) -> bool:
    """Say whether the modules still have the classes."""
    return all(item.space.get(item.key) is item.cls for methods in found.values() for item in methods)


def _mentions_in(module: ModuleType, words: frozenset[str]) -> _Mentions:
    space = namespace(module)
    known_words, length, found = _MENTIONS.get(module, (None, 0, {}))
    if known_words != words or length != len(space) or not _are_there(found):
        # The length comes first: what is added meanwhile is seen, or changes it.
        length, found = len(space), _look_for(module, words)
        if is_ready(module):
            _MENTIONS[module] = words, length, found
    return found


def _look_for(module: ModuleType, words: frozenset[str]) -> _Mentions:
    found: dict[str, list[_Method]] = {}
    space = namespace(module)
    for key, cls, name, function in _methods(module):
        for word in _words_of(function, words):
            found.setdefault(word, []).append(_Method(space, key, cls, name))
    return found


def _words_of(function: FunctionType, words: frozenset[str]) -> set[str]:
    found: set[str] = set()
    for item in _chain(function):
        code = item.__code__
        if not (words.isdisjoint(code.co_names) and words.isdisjoint(code.co_varnames)):
            found |= words.intersection((*code.co_names, *code.co_varnames))
    return found


def _methods(module: ModuleType) -> Iterator[tuple[str, type, str, FunctionType]]:
    """Yield the functions in the classes that a module has made itself, with the name that the class has there."""
    classes: dict[type, str] = {}
    for key, value in list(namespace(module).items()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            classes.setdefault(value, key)
    for cls, key in classes.items():
        for name, value in list(vars(cls).items()):
            if isinstance(value, FunctionType):
                yield key, cls, name, value


def _made_by(decorator: Any) -> list[CodeType]:
    """Return the code of the functions that a decorator makes."""
    return [const for const in decorator.__code__.co_consts if isinstance(const, CodeType)]


def _modules(modules: Iterable[ModuleType]) -> Modules:
    return modules if isinstance(modules, Modules) else Modules(modules)


def _chain(function: Any) -> Iterator[FunctionType]:
    """Yield a function and what it wraps, the outermost first."""
    while isinstance(function, FunctionType):
        yield function
        function = getattr(function, "__wrapped__", None)


def _can_import(name: str, known: dict[str, Any]) -> bool:
    path: Any = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        prefix = ".".join(parts[:depth])
        if prefix not in known:
            known[prefix] = _search_path(prefix, path)
        path = known[prefix]
        if path is ABSENT or (path is None and depth < len(parts)):
            return False
    return True


def _search_path(name: str, path: Any) -> Any:
    """Return where the submodules of a module are; None if it is no package, `ABSENT` if there is no such module."""
    loaded = sys.modules.get(name)
    spec = getattr(loaded, "__spec__", None) or _find_spec(name, path)
    if loaded is None and spec is None:
        return ABSENT
    return getattr(loaded, "__path__", None) or getattr(spec, "submodule_search_locations", None)


def _find_spec(name: str, path: Any) -> ModuleSpec | None:
    # importlib.util.find_spec would import the parents.
    finders = [finder for finder in list(sys.meta_path) if hasattr(finder, "find_spec")]
    found = (finder.find_spec(name, path) for finder in finders)
    try:
        return next((spec for spec in found if spec is not None), None)
    except KeyError:
        # What finds a folder without `__init__` asks for its parent among the modules that are imported.
        return _spec_of_folder(name, path)


def _spec_of_folder(name: str, path: Any) -> ModuleSpec:
    """Return what is known of a namespace package, whose parent has these folders."""
    spec = ModuleSpec(name, None, is_package=True)
    folders = (Path(folder, name.rpartition(".")[2]) for folder in path or ())
    spec.submodule_search_locations = [str(folder) for folder in folders if folder.is_dir()]
    return spec
