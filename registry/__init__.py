"""The engine: declare (`PatchingSpec`), select (`plan`), apply (`Scope`). Imports neither torch nor transformers."""

from ._errors import (
    AttributeMissingError,
    ClassMissingError,
    ConflictError,
    DriftError,
    DriftWarning,
    DuplicateSpecError,
    ExportCompatError,
    MissingExtraError,
    ModuleMissingError,
    NotApplicableError,
    RestoreError,
    SpecError,
    TargetError,
    UnknownSpecError,
)
from ._fingerprint import Fingerprints, fingerprint, of_node, text_key
from ._registry import Registry
from ._report import Drift, PatchReport, Use
from ._scope import OnDrift, Scope
from ._select import Decision, plan
from ._signature import misfit
from ._similar import did_you_mean
from ._spec import Kind, PatchingSpec
from ._targets import DecoratedTarget, Target, parse_target
from ._versions import Environment, Range, installed_version, parse_range

__all__ = [
    "AttributeMissingError",
    "ClassMissingError",
    "ConflictError",
    "Decision",
    "DecoratedTarget",
    "Drift",
    "DriftError",
    "DriftWarning",
    "DuplicateSpecError",
    "Environment",
    "ExportCompatError",
    "Fingerprints",
    "Kind",
    "MissingExtraError",
    "ModuleMissingError",
    "NotApplicableError",
    "OnDrift",
    "PatchReport",
    "PatchingSpec",
    "Range",
    "Registry",
    "RestoreError",
    "Scope",
    "SpecError",
    "Target",
    "TargetError",
    "UnknownSpecError",
    "Use",
    "did_you_mean",
    "fingerprint",
    "installed_version",
    "misfit",
    "of_node",
    "parse_range",
    "parse_target",
    "plan",
    "text_key",
]
