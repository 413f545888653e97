"""Every error of the package. Each names the id, what was wanted, what was found and what to do."""

from collections.abc import Sequence


class ExportCompatError(Exception):
    """Base class of every error that this package raises on purpose."""


class SpecError(ExportCompatError, ValueError):
    """A `PatchingSpec` is malformed. Raised while it is being built."""


class DuplicateSpecError(SpecError):
    """Two specs claim the same id and versions, or the same target and versions."""


class ReadOnlyError(ExportCompatError, TypeError):
    """Something was to be added to a registry that others share."""


class RegistryError(ExportCompatError):
    """A registry was asked for by name, and there is none, or it is broken."""


class UnknownSpecError(ExportCompatError, LookupError):
    """The caller named an id that no spec has."""


class NotApplicableError(ExportCompatError):
    """The caller named an id that cannot apply to what is installed."""


class TargetError(ExportCompatError):
    """A target of a spec cannot be found although its versions are in range."""


class ModuleMissingError(TargetError):
    """The module of a target does not exist."""


class ClassMissingError(TargetError):
    """The class (or other owner) of a target does not exist in its module."""


class AttributeMissingError(TargetError):
    """The attribute or mapping item of a target does not exist."""


class DriftError(ExportCompatError):
    """A target's source or signature is not one that the spec was proved against."""


class CompanionError(ExportCompatError):
    """Installed packages do not go together, so that no ONNX file can be written."""


class CompanionWarning(UserWarning):
    """Installed packages do not go together, so that no ONNX file can be written."""


class DriftWarning(UserWarning):
    """A target's source or signature is not one that the spec was proved against."""


class AssumptionWarning(UserWarning):
    """A graph is right only for a part of the sizes that were asked for."""


class AssumptionError(ExportCompatError):
    """A graph is right only for a part of the sizes that were asked for, and the caller wants none such.

    Attributes:
        assumptions: the `Assumption`s.
    """

    def __init__(self, assumptions: Sequence[object]) -> None:
        self.assumptions = tuple(assumptions)
        lines = "".join(f"\n  {item}" for item in self.assumptions)
        super().__init__(
            f"{len(self.assumptions)} assumptions about dynamic sizes are in the graph.{lines}\n"
            'Give the axes bounds, or change the model; on_assumption="warn" goes on all the same.'
        )


class NoCacheError(ExportCompatError):
    """No graph with the cache of a model is right, and one for whole texts may be.

    Attributes:
        reason: why, a clause.
        remedy: what gives a file with a cache all the same, a clause; empty if nothing does.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(reason, remedy)

    def __str__(self) -> str:
        hint = f"; for a cache, {self.remedy}" if self.remedy else ""
        return (
            f"{self.reason}. Pass generate=False (to the command, --task text-generation) to export it for whole "
            f"texts, without a cache{hint}"
        )


class ConflictError(ExportCompatError):
    """A target is already replaced by another spec."""


class MissingExtraError(ExportCompatError, ImportError):
    """A feature needs a package that is not installed."""


class RestoreError(ExportCompatError):
    """Some targets could not be given back when a scope ended.

    Attributes:
        errors: one `(target, exception)` for each target that is still replaced.
    """

    def __init__(self, errors: Sequence[tuple[str, BaseException]]) -> None:
        self.errors = tuple(errors)
        lines = "".join(f"\n  {target}: {type(error).__name__}: {error}" for target, error in errors)
        super().__init__(
            f"{len(self.errors)} of the patched targets could not be given back; all others were.{lines}\n"
            "Their replacements now only call the original. Start a new process to be sure."
        )
