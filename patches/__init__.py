"""The specs, by area. Every module of an area whose name has no leading underscore holds one defect, in `SPECS`."""

import importlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from exportcompat.registry import Fingerprints, PatchingSpec, Registry

from ._companions import COMPANIONS
from .toolkit.records import TORCH

__all__ = ["AREAS", "SUPPORTED", "Area", "area_of", "default_registry"]

SUPPORTED = (TORCH, "transformers>=4.44")
"""The releases that specs are written for; a record that does not say more is for all of them."""


class Area(NamedTuple):
    """A folder with specs for one kind of defect; its docstring says more.

    Attributes:
        name: the folder.
        about: what is broken there, in a line.
    """

    name: str
    about: str


AREAS = (
    Area("torch_export", "torch.export: no graph, a wrong one, or a live model that is changed"),
    Area("torch_onnx", "torch.onnx.export: names, operators and passes between a graph and a file"),
    Area("attention", "masks, and positions of tokens"),
    Area("caches", "classes of caches as pytree nodes, and how long a cache is"),
    Area("experts", "mixtures of experts: loops and groups that depend on routing"),
    Area("multimodal", "features of images and sounds on their way into a text"),
    Area("recurrent", "layers with a state: scans, delta rules, convolutions, linear attention"),
    Area("single_models", "what one model alone does"),
    Area("vision", "image encoders: positions, windows, and segments of patches"),
)
"""The areas, in the order in which their modules are read where `_order` does not say another."""


def area_of(spec: PatchingSpec) -> str | None:
    """Return the area of a spec, which is the folder that defines it; None if it is not of this package."""
    folder = Path(spec.definer.rpartition(":")[0]).parent
    is_ours = folder.parent == Path(__path__[0]) and folder.name in [area.name for area in AREAS]
    return folder.name if is_ours else None


@lru_cache(maxsize=1)
def default_registry() -> Registry:
    """Return the registry of all specs of this package. It is made once; importing a spec imports no torch.

    It is read-only, since everybody in the process has the same: `default_registry() | mine` makes another one.
    """
    modules = [importlib.import_module(f"{__name__}.{name}") for name in _names()]
    specs = [spec for module in modules for spec in module.SPECS]
    lock = Fingerprints(Path(__path__[0]) / "fingerprints.json")
    return Registry(specs, fingerprints=lock, companions=COMPANIONS, origin="exportcompat", read_only=True)


def _names() -> list[str]:
    """Return the modules with specs in the order in which they apply."""
    # The report of a process without specs does without it.
    from ._order import ORDER

    folder, rank = Path(__path__[0]), {name: index for index, name in enumerate(ORDER)}
    found = [f"{area.name}.{path.stem}" for area in AREAS for path in sorted((folder / area.name).glob("[!_]*.py"))]
    return sorted(found, key=lambda name: rank.get(name, len(rank)))
