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
        self._found: dict[Any, Any] = {}

    def __iter__(self) -> Iterator[ModuleType]:
        return iter(self._loaded)

    def are(self, loaded: list[ModuleType]) -> bool:
        """Say whether these modules are `loaded`, in the same order, and none has got another number of names."""
        try:
            # Lists compare by identity first. Some objects in `sys.modules` have an `__eq__` of their own.
            return bool(loaded == self._loaded) and [*map(len, self._spaces)] == self._lengths
        except Exception:
            return False

    def having(self, name: str) -> list[ModuleType]:
        """Return the modules that have `name`, whatever it stands for there."""
        return self.once(
            ("name", name),
            lambda: [module for module, space in zip(self._loaded, self._spaces, strict=True) if name in space],
        )

    def within(self, package: str) -> list[ModuleType]:
        """Return the modules of `package`, and of `<package>_modules`, where transformers puts code of checkpoints."""
        prefixes = (f"{package}.", f"{package}_modules.")
        return self.once(
            ("package", package),
            lambda: [item for item in self._loaded if str(getattr(item, "__name__", "")).startswith(prefixes)],
        )

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
