"""Version-aware patches that make `torch.export` of Hugging Face models work, and stay right.

>>> from exportcompat import apply_patches
>>> with apply_patches():
...     torch.onnx.export(model, (), "model.onnx", kwargs=inputs, dynamic_shapes=shapes, dynamo=True)
"""

from ._lazy import later as _later
from ._version import __version__

# What type checkers take for true; `typing` itself is half of what is imported until the command can be interrupted.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from exportcompat.patches import default_registry
    from exportcompat.registry import (
        Assumption,
        AssumptionError,
        AssumptionWarning,
        AttributeMissingError,
        ClassMissingError,
        CompanionError,
        CompanionWarning,
        ConflictError,
        Decision,
        DriftError,
        DriftWarning,
        DuplicateSpecError,
        ExportCompatError,
        MissingExtraError,
        ModuleMissingError,
        NoCacheError,
        NotApplicableError,
        PatchingSpec,
        PatchReport,
        Plan,
        ReadOnlyError,
        Registry,
        RegistryError,
        RestoreError,
        SpecError,
        TargetError,
        Unchanged,
        UnknownSpecError,
    )

    from ._api import apply_patches, plan
    from ._dataset import Compatibility, works
    from ._encoder_decoder import TextDecoder
    from ._exporter import Exported, export
    from ._observer import InputObserver
    from ._plugins import RegistrySource, installed_registries, load_registry
    from ._verification import Contract, Discrepancies, Discrepancy

__all__ = [
    "Assumption",
    "AssumptionError",
    "AssumptionWarning",
    "AttributeMissingError",
    "ClassMissingError",
    "CompanionError",
    "CompanionWarning",
    "Compatibility",
    "ConflictError",
    "Contract",
    "Decision",
    "Discrepancies",
    "Discrepancy",
    "DriftError",
    "DriftWarning",
    "DuplicateSpecError",
    "ExportCompatError",
    "Exported",
    "InputObserver",
    "MissingExtraError",
    "ModuleMissingError",
    "NoCacheError",
    "NotApplicableError",
    "PatchReport",
    "PatchingSpec",
    "Plan",
    "ReadOnlyError",
    "Registry",
    "RegistryError",
    "RegistrySource",
    "RestoreError",
    "SpecError",
    "TargetError",
    "TextDecoder",
    "Unchanged",
    "UnknownSpecError",
    "__version__",
    "apply_patches",
    "default_registry",
    "export",
    "installed_registries",
    "load_registry",
    "plan",
    "works",
]

_LATER = {
    "Assumption": "registry",
    "AssumptionError": "registry",
    "AssumptionWarning": "registry",
    "AttributeMissingError": "registry",
    "ClassMissingError": "registry",
    "CompanionError": "registry",
    "CompanionWarning": "registry",
    "Compatibility": "_dataset",
    "ConflictError": "registry",
    "Contract": "_verification",
    "Decision": "registry",
    "Discrepancies": "_verification",
    "Discrepancy": "_verification",
    "DriftError": "registry",
    "DriftWarning": "registry",
    "DuplicateSpecError": "registry",
    "ExportCompatError": "registry",
    "Exported": "_exporter",
    "InputObserver": "_observer",
    "MissingExtraError": "registry",
    "ModuleMissingError": "registry",
    "NoCacheError": "registry",
    "NotApplicableError": "registry",
    "PatchReport": "registry",
    "PatchingSpec": "registry",
    "Plan": "registry",
    "ReadOnlyError": "registry",
    "Registry": "registry",
    "RegistryError": "registry",
    "RegistrySource": "_plugins",
    "RestoreError": "registry",
    "SpecError": "registry",
    "TargetError": "registry",
    "TextDecoder": "_encoder_decoder",
    "Unchanged": "registry",
    "UnknownSpecError": "registry",
    "apply_patches": "_api",
    "default_registry": "patches",
    "export": "_exporter",
    "installed_registries": "_plugins",
    "load_registry": "_plugins",
    "patches": "",
    "plan": "_api",
    "registry": "",
    "works": "_dataset",
}
"""What is imported when it is first asked for: the command is up before it, and can be interrupted while it waits."""


# Nobody shall find this name here.
del TYPE_CHECKING


__getattr__ = _later(__name__, _LATER)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
