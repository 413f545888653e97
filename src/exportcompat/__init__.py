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
    CompanionError,
    CompanionWarning,
    ConflictError,
    Decision,
    DriftError,
    DriftWarning,
    ExportCompatError,
    NotApplicableError,
    PatchingSpec,
    PatchReport,
    Plan,
    Registry,
    RestoreError,
    SpecError,
    TargetError,
    UnknownSpecError,
)

from ._api import apply_patches, plan
from ._lazy import later as _later
from ._version import __version__

if TYPE_CHECKING:
    from ._encoder_decoder import TextDecoder
    from ._exporter import Exported, export
    from ._observer import InputObserver
    from ._verification import Discrepancies, Discrepancy

__all__ = [
    "Assumption",
    "AssumptionError",
    "AssumptionWarning",
    "CompanionError",
    "CompanionWarning",
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
    "Plan",
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
    "Discrepancies": "_verification",
    "Discrepancy": "_verification",
    "Exported": "_exporter",
    "InputObserver": "_observer",
    "TextDecoder": "_encoder_decoder",
    "export": "_exporter",
}
"""What is imported when it is first asked for: whoever only patches need not wait for it."""


# Nobody shall find this name here.
del TYPE_CHECKING


__getattr__ = _later(__name__, _LATER)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
