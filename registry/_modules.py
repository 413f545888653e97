"""What is loaded: one walk of `sys.modules` for all targets, kept until what it has found may have changed."""

import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, TypeVar

_T = TypeVar("_T")


def namespace(module: ModuleType) -> dict[str, Any]:
    """Return what `module` has itself; `sys.modules` may hold objects that have nothing."""
    return getattr(module, "__dict__", {})


class Modules:
    """Some modules, and what was found in them.

    What they hold is read when it is asked for. A name that comes later makes a namespace longer, so the lengths are
    noted before anything is read.
    """

    def __init__(self, loaded: Iterable[ModuleType]) -> None:
        self._loaded = list(loaded)
        self._spaces = [namespace(module) for module in self._loaded]
        self._lengths = [*map(len, self._spaces)]
        self._having: dict[str, list[ModuleType]] = {}
        self._within: dict[str, list[ModuleType]] = {}
        self._found: dict[Any, Any] = {}

    def __iter__(self) -> Iterator[ModuleType]:
        return iter(self._loaded)

    def are(self, loaded: list[ModuleType]) -> bool:
        """Say whether these modules are `loaded`, in the same order, and none has got a name that was looked for."""
        try:
            # Lists compare by identity first. Some objects in `sys.modules` have an `__eq__` of their own.
            is_same = bool(loaded == self._loaded)
        except Exception:
            return False
        return is_same and self._have_no_more([*map(len, self._spaces)])

    def _have_no_more(self, lengths: list[int]) -> bool:
        if lengths == self._lengths:
            return True
        # `__main__` of a notebook grows all the time.
        pairs = enumerate(zip(lengths, self._lengths, strict=True))
        changed = [self._loaded[index] for index, (now, before) in pairs if now != before]
        if any(module in modules for modules in self._within.values() for module in changed):
            return False
        for name, modules in self._having.items():
            if any(name in namespace(module) and module not in modules for module in changed):
                return False
        self._lengths = lengths
        return True

    def having(self, name: str) -> list[ModuleType]:
        """Return the modules that have `name`, whatever it stands for there."""
        if name not in self._having:
            pairs = zip(self._loaded, self._spaces, strict=True)
            self._having[name] = [module for module, space in pairs if name in space]
        return self._having[name]

    def within(self, package: str) -> list[ModuleType]:
        """Return the modules of `package`, and of `<package>_modules`, where transformers puts code of checkpoints."""
        if package not in self._within:
            prefixes = (f"{package}.", f"{package}_modules.")
            names = ((item, str(getattr(item, "__name__", ""))) for item in self._loaded)
            self._within[package] = [item for item, name in names if name.startswith(prefixes)]
        return self._within[package]

    def once(self, key: Any, find: Callable[[], _T], is_right: Callable[[_T], bool] = lambda found: True) -> _T:
        """Return what `find` has returned for `key`, as long as it is right."""
        if key not in self._found or not is_right(self._found[key]):
            self._found[key] = find()
        found: _T = self._found[key]
        return found


class LoadedModules:
    """Looks at `sys.modules`, and gives the same object as long as nothing there has changed."""

    def __init__(self) -> None:
        self._last = Modules(())

    def now(self) -> Modules:
        """Return what is loaded now."""
        loaded = list(sys.modules.values())
        last = self._last
        if not last.are(loaded):
            self._last = last = Modules(loaded)
        return last
