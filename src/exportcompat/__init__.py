"""Version-aware patches that make `torch.export` of Hugging Face models work, and stay right.

>>> from exportcompat import apply_patches
>>> with apply_patches():
...     torch.onnx.export(model, (), "model.onnx", kwargs=inputs, dynamic_shapes=shapes, dynamo=True)
"""

from exportcompat.registry import (
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
from ._discrepancy import Discrepancies, Discrepancy
from ._export import Exported, export
from ._observer import InputObserver
from ._version import __version__

__all__ = [
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
    "UnknownSpecError",
    "__version__",
    "apply_patches",
    "export",
    "plan",
]
