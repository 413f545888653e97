"""Patches of other exporters as specs of ours, and ours for other exporters.

Nothing here is imported unless it is asked for; each function imports the package that it is about.
"""

from typing import TYPE_CHECKING

from exportcompat._lazy import later

if TYPE_CHECKING:
    from ._installed_sources import InstalledSources, write_sources
    from ._litert_torch import from_litert_torch
    from ._optimum import from_optimum, to_optimum
    from ._transformers_exporters import from_transformers, to_transformers

__all__ = [
    "InstalledSources",
    "from_litert_torch",
    "from_optimum",
    "from_transformers",
    "to_optimum",
    "to_transformers",
    "write_sources",
]

_OWNERS = {
    "InstalledSources": "_installed_sources",
    "write_sources": "_installed_sources",
    "from_litert_torch": "_litert_torch",
    "from_optimum": "_optimum",
    "to_optimum": "_optimum",
    "from_transformers": "_transformers_exporters",
    "to_transformers": "_transformers_exporters",
}

__getattr__ = later(__name__, _OWNERS)
