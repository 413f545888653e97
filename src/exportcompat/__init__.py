"""Version-aware patches that make `torch.export` of Hugging Face models work, and stay right.

>>> from exportcompat import apply_patches
>>> with apply_patches():
...     torch.onnx.export(model, (), "model.onnx", kwargs=inputs, dynamic_shapes=shapes, dynamo=True)
"""

from typing import TYPE_CHECKING

from exportcompat.registry import (
    Assumption,
    AssumptionError,
    AssumptionWarning,
    ConflictError,
    Decision,
    DriftError,
    DriftWarning,
    ExportCompatError,
    NotApplicableError,
    PatchingSpec,
    PatchReport,
    Registry,
    RestoreError,
    SpecError,
    TargetError,
    UnknownSpecError,
)

from ._api import apply_patches, plan
from ._version import __version__

if TYPE_CHECKING:
    from ._discrepancy import Discrepancies, Discrepancy
    from ._export import Exported, export
    from ._observer import InputObserver
    from ._pair import TextDecoder

__all__ = [
    "Assumption",
    "AssumptionError",
    "AssumptionWarning",
    "ConflictError",
    "Decision",
    "Discrepancies",
    "Discrepancy",
    "DriftError",
    "DriftWarning",
    "ExportCompatError",
    "Exported",
    "InputObserver",
    "NotApplicableError",
    "PatchReport",
    "PatchingSpec",
    "Registry",
    "RestoreError",
    "SpecError",
    "TargetError",
    "TextDecoder",
    "UnknownSpecError",
    "__version__",
    "apply_patches",
    "export",
    "plan",
]

_LATER = {
    "Discrepancies": "_discrepancy",
    "Discrepancy": "_discrepancy",
    "Exported": "_export",
    "InputObserver": "_observer",
    "TextDecoder": "_pair",
    "export": "_export",
}
"""What is imported when it is first asked for: whoever only patches need not wait for it."""


# Nobody shall find this name here.
del TYPE_CHECKING


def __getattr__(name: str) -> object:
    import importlib

    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
