"""Which specs `list` shows: those of an area, or those that concern a model."""

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator

from exportcompat._extras import require
from exportcompat.patches import AREAS, area_of
from exportcompat.registry import Environment, ExportCompatError, PatchingSpec, Registry, Target, plan

_MODELS = "transformers.models"


def of_area(specs: Iterable[PatchingSpec], area: str) -> Iterator[PatchingSpec]:
    """Yield the specs of an area.

    Raises:
        ExportCompatError: there is no such area; the message lists them.
    """
    known = [item.name for item in AREAS]
    if area not in known:
        raise ExportCompatError(f"there is no area {area!r}{_hint(area, known)}; areas: {', '.join(known)}")
    yield from (spec for spec in specs if area_of(spec) == area)


def of_model(registry: Registry, model_type: str) -> tuple[list[PatchingSpec], list[PatchingSpec]]:
    """Return the specs that write into the code of a model, and those for code that all models share; both apply here.

    The module of the model is imported, since what a pattern target finds depends on what is loaded.

    Args:
        registry: the specs.
        model_type: as in a `config.json`, such as `qwen3_next`.

    Raises:
        ExportCompatError: the installed transformers has no such model; the message names similar ones.
        MissingExtraError: transformers is not installed.
    """
    package = _package(model_type)
    importlib.import_module(f"{package}.modeling_{package.rpartition('.')[2]}")
    specs = [item.spec for item in plan(registry, Environment()) if item.applies]
    own = [spec for spec in specs if any(_writes_into(target, package) for target in spec.places)]
    shared = [spec for spec in specs if spec not in own and not any(_is_for_models(item) for item in spec.places)]
    return own, shared


def _package(model_type: str) -> str:
    """Return the full name of the folder of a model."""
    mapping = require("transformers.models.auto.configuration_auto", "transformers")
    folder = mapping.model_type_to_module_name(model_type)
    if importlib.util.find_spec(f"{_MODELS}.{folder}") is None:
        hint = _hint(model_type, mapping.CONFIG_MAPPING_NAMES)
        raise ExportCompatError(f"the installed transformers has no model type {model_type!r}{hint}")
    return f"{_MODELS}.{folder}"


def _writes_into(target: Target, package: str) -> bool:
    if not target.is_spread:
        return target.module.startswith(f"{package}.")
    # What the model uses is loaded with it.
    slots = target.slots(list(sys.modules.values())) if target.is_loaded() else []
    return any(slot.label.startswith(f"{package}.") for slot in slots)


def _is_for_models(target: Target) -> bool:
    return target.is_spread or target.module.startswith(f"{_MODELS}.")


def _hint(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 3)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
