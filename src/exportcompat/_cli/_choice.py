"""Which specs `list` and `plan` show: those of an area, or those that concern a model."""

import re
from collections.abc import Iterable, Iterator

from exportcompat._model_names import Named, find_model, folder_of, installed_models, source_of
from exportcompat.patches import AREAS, area_of
from exportcompat.registry import (
    Environment,
    ExportCompatError,
    PatchingSpec,
    Registry,
    Target,
    did_you_mean,
    installed_version,
    plan,
)

_WORD = re.compile(r":(\w+)\)$")


def of_area(specs: Iterable[PatchingSpec], area: str) -> Iterator[PatchingSpec]:
    """Yield the specs of an area.

    Raises:
        ExportCompatError: there is no such area; the message lists them.
    """
    known = [item.name for item in AREAS]
    if area not in known:
        raise ExportCompatError(f"there is no area {area!r}{did_you_mean(area, known)}; areas: {', '.join(known)}")
    yield from (spec for spec in specs if area_of(spec) == area)


class ForModel:
    """Says which specs concern a model; nothing is imported for it.

    Args:
        name: a model type, a class, a folder, or a name of the hub.
        registry: the specs.
        environment: the versions. What a pattern finds is looked up in the installed transformers; for another
            release every pattern may concern the model.

    Raises:
        ExportCompatError: nothing is known by that name.
    """

    def __init__(self, name: str, registry: Registry, environment: Environment) -> None:
        known = {folder_of(target.module) for spec in registry for target in spec.places} - {""}
        self.named: Named = find_model(name, known)
        version = environment["transformers"]
        is_here = bool(installed_models()) and installed_version("transformers") == version
        self._source = "\n".join(map(source_of, self.named.folders)) if is_here else None

    def is_own(self, spec: PatchingSpec) -> bool:
        """Say whether a spec writes into the code of the model."""
        return any(self._writes_into(target) for target in spec.places)

    def concerns(self, spec: PatchingSpec) -> bool:
        """Say whether a spec writes into the code of the model, or into what all models share."""
        return self.is_own(spec) or not any(_is_for_models(target) for target in spec.places)

    def _writes_into(self, target: Target) -> bool:
        if not target.is_spread:
            return folder_of(target.module) in self.named.folders
        word = _WORD.search(target.text)
        return self._source is None or word is None or re.search(rf"\b{word[1]}\b", self._source) is not None


def of_model(registry: Registry, name: str) -> tuple[list[PatchingSpec], list[PatchingSpec]]:
    """Return the specs that write into the code of a model, and those for code that all models share; both apply here.

    Raises:
        ExportCompatError: see `ForModel`.
    """
    environment = Environment()
    model = ForModel(name, registry, environment)
    specs = [item.spec for item in plan(registry, environment) if item.applies]
    own = [spec for spec in specs if model.is_own(spec)]
    return own, [spec for spec in specs if spec not in own and model.concerns(spec)]


def _is_for_models(target: Target) -> bool:
    return target.is_spread or bool(folder_of(target.module))
