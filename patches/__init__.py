"""The specs. Every module here whose name has no leading underscore holds one defect, in `SPECS`."""

import importlib
from functools import lru_cache
from pathlib import Path

from exportcompat.registry import Fingerprints, Registry

from ._companions import COMPANIONS

__all__ = ["default_registry"]


@lru_cache(maxsize=1)
def default_registry() -> Registry:
    """Return the registry of all specs of this package. It is made once; importing a spec imports no torch."""
    # The plan and the report of a process without specs do without it.
    import pkgutil

    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    specs = [spec for module in modules for spec in module.SPECS]
    lock = Fingerprints(Path(__path__[0]) / "fingerprints.json")
    return Registry(specs, fingerprints=lock, companions=COMPANIONS)
