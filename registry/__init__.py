"""The engine: declare (`PatchingSpec`), select (`plan`), apply (`Scope`). Imports neither torch nor transformers."""

from ._assumptions import Assumption, AssumptionKind, OnAssumption, tell_assumptions
from ._companions import CompanionRule, mismatches, require_companions
from ._errors import (
    AssumptionError,
    AssumptionWarning,
    AttributeMissingError,
    ClassMissingError,
    CompanionError,
    CompanionWarning,
    ConflictError,
    DriftError,
    DriftWarning,
    DuplicateSpecError,
    ExportCompatError,
    MissingExtraError,
    ModuleMissingError,
    NoCacheError,
    NotApplicableError,
    ReadOnlyError,
    RegistryError,
    RestoreError,
    SpecError,
    TargetError,
    UnknownSpecError,
)
from ._fingerprint import BUILTIN, Fingerprints, fingerprint, of_node, source_hash
from ._objects import target_name
from ._packages import COMPANIONS, PACKAGES, module_of
from ._registry import Registry
from ._report import Drift, PatchReport, Use
from ._scope import OnDrift, Scope
from ._select import Decision, Plan, plan
from ._signature import signature_mismatch
from ._similar import did_you_mean
from ._spec import Kind, PatchingSpec
from ._table import html_table, text_table
from ._targets import DecoratedTarget, Target, parse_target
from ._unchanged import Unchanged
from ._versions import Environment, Range, installed_version, parse_range

__all__ = [
    "BUILTIN",
    "COMPANIONS",
    "PACKAGES",
    "Assumption",
    "AssumptionError",
    "AssumptionKind",
    "AssumptionWarning",
    "AttributeMissingError",
    "ClassMissingError",
    "CompanionError",
    "CompanionRule",
    "CompanionWarning",
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
    "NoCacheError",
    "NotApplicableError",
    "OnAssumption",
    "OnDrift",
    "PatchReport",
    "PatchingSpec",
    "Plan",
    "Range",
    "ReadOnlyError",
    "Registry",
    "RegistryError",
    "RestoreError",
    "Scope",
    "SpecError",
    "Target",
    "TargetError",
    "Unchanged",
    "UnknownSpecError",
    "Use",
    "did_you_mean",
    "fingerprint",
    "html_table",
    "installed_version",
    "mismatches",
    "module_of",
    "of_node",
    "parse_range",
    "parse_target",
    "plan",
    "require_companions",
    "signature_mismatch",
    "source_hash",
    "target_name",
    "tell_assumptions",
    "text_table",
]
