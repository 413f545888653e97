"""Registries of other packages, by name: nothing is imported that is not asked for.

A package offers its specs as an entry point of the group `exportcompat.specs`; the name is what callers write:

    [project.entry-points."exportcompat.specs"]
    mypackage = "mypackage.patches:SPECS"

The value is a `Registry`, specs, or a function without arguments that returns one of these.
"""

import importlib
import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import metadata
from operator import or_
from typing import Any

from exportcompat.patches import default_registry
from exportcompat.registry import ExportCompatError, PatchingSpec, Registry, RegistryError, did_you_mean

GROUP = "exportcompat.specs"
OWN = "exportcompat"


@dataclass(frozen=True)
class RegistrySource:
    """A registry that an installed package offers.

    Attributes:
        name: by which it is loaded.
        value: where it is, as `module:attribute`.
        package: the package with its version; empty for an adapter of this package.
    """

    name: str
    value: str
    package: str = ""

    def __str__(self) -> str:
        return f"{self.name!r} ({self.value}{f' of {self.package}' if self.package else ''})"


ADAPTERS = (
    RegistrySource("transformers", "exportcompat.adapters:from_transformers"),
    RegistrySource("optimum", "exportcompat.adapters:from_optimum"),
    RegistrySource("litert_torch", "exportcompat.adapters:from_litert_torch"),
)
"""Registries of packages that do not know of this one."""


def installed_registries() -> list[RegistrySource]:
    """Return what installed packages offer, by name. Nothing of it is imported."""
    found = (
        RegistrySource(item.name, item.value, f"{item.dist.name} {item.dist.version}" if item.dist else "")
        for item in metadata.entry_points(group=GROUP)
    )
    # A folder that is on the path twice has its entry points twice.
    return sorted(dict.fromkeys(found), key=lambda item: (item.name, item.package))


def load_registry(name: str) -> Registry:
    """Return the registry that goes by a name; its specs say so in `origin`.

    Args:
        name: an entry point of the group `exportcompat.specs`; or `module:attribute`; or a module that has `SPECS`;
            or `exportcompat` for the specs of this package.

    Raises:
        RegistryError: there is none, it cannot be imported, or it is no registry. The message has the cause.
    """
    if name == OWN:
        return default_registry()
    source = _source(name)
    try:
        return _loaded(source)
    except (Exception, SystemExit) as error:
        # Whatever a package does wrong is its own affair, and is said to be.
        raise RegistryError(
            f"the registry {source} cannot be loaded: {type(error).__name__}: {error}; report it to its authors, or do "
            "without it"
        ) from error


def with_registries(base: Registry, names: Iterable[str]) -> Registry:
    """Return a registry with the specs of `base` and those of other registries.

    A registry that has specs of this package itself, overridden or narrowed maybe, stands in the place of `base`.

    Raises:
        RegistryError: see `load_registry`.
        DuplicateSpecError: two of them have an id or a target for the same versions.
    """
    loaded = [load_registry(name) for name in dict.fromkeys(names)]
    whole = [item for item in loaded if any(spec.origin == OWN for spec in item)]
    return reduce(or_, [*(whole or [base]), *(item for item in loaded if item not in whole)])


def only_registries(base: Registry, names: Sequence[str]) -> Registry:
    """Return a registry with the specs of those that are named alone; `base` if there are no names.

    Raises:
        RegistryError: see `load_registry`.
        DuplicateSpecError: see `with_registries`.
    """
    return reduce(or_, map(load_registry, dict.fromkeys(names))) if names else base


def _source(name: str) -> RegistrySource:
    offered = installed_registries()
    found = [item for item in offered if item.name == name] or [item for item in ADAPTERS if item.name == name]
    if len(found) > 1:
        raise RegistryError(
            f"several packages offer a registry {name!r}: {', '.join(map(str, found))}; write one's value"
        )
    if found:
        return found[0]
    if ":" in name:
        return RegistrySource(name, name)
    if _is_module(name):
        return RegistrySource(name, f"{name}:SPECS")
    known = [OWN, *(item.name for item in (*offered, *ADAPTERS))]
    hint = did_you_mean(name, known) or f"; known ones: {', '.join(known)}"
    raise RegistryError(f"there is no registry {name!r}, no module of that name, and it is no module:attribute{hint}")


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _loaded(source: RegistrySource) -> Registry:
    module, _, attribute = source.value.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    if callable(found) and not isinstance(found, Registry):
        found = found()
    if not isinstance(found, Registry):
        if not isinstance(found, Iterable) or isinstance(found, (str, PatchingSpec)):
            raise ExportCompatError(f"it is {found!r}; wanted a Registry, or specs")
        found = Registry(found)
    registry: Registry = found
    return registry.marked(source.name)
