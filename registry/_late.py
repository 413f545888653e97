"""Late imports: what is not loaded when a scope begins is patched as soon as it is imported inside the scope."""

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

OnImport = Callable[[ModuleType], None]


class _Observed:
    """A loader that calls back after the module has run, and leaves no trace of itself on the module.

    It is no `importlib.abc.Loader`: that import costs 6 ms and gives nothing that is needed.
    """

    def __init__(self, loader: Any, on_import: OnImport) -> None:
        self._loader = loader
        self._on_import = on_import

    def __getattr__(self, name: str) -> Any:
        # Whoever looks at a spec before its module has run (runpy, pkgutil) wants the loader's other methods.
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        spec.loader = self._loader
        module: ModuleType | None = self._loader.create_module(spec)
        spec.loader = self  # type: ignore[assignment]
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._on_import(module)


class ImportWatch:
    """Calls every listener after each module that is imported from source while somebody listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[OnImport] = []

    def listen(self, listener: OnImport) -> None:
        """Begin to call `listener(module)`."""
        with self._lock:
            self._listeners.append(listener)
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)

    def forget(self, listener: OnImport) -> None:
        """Stop calling `listener`; nothing happens if it does not listen."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)
            if not self._listeners and self in sys.meta_path:
                sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module as Python would, and observe its loader if it runs Python source."""
        # Before Python 3.12 an entry may have no find_spec.
        finders = [finder for finder in list(sys.meta_path) if finder is not self and hasattr(finder, "find_spec")]
        specs = (finder.find_spec(fullname, path, target) for finder in finders)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Observed(spec.loader, self._notify)  # type: ignore[assignment]
        return spec

    def _notify(self, module: ModuleType) -> None:
        for listener in list(self._listeners):
            listener(module)
