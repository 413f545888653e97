"""The two functions that most users need."""

from collections.abc import Collection, Mapping
from typing import Any

from exportcompat.registry import Environment, OnAssumption, OnDrift, Plan, Registry, Scope
from exportcompat.registry import plan as _plan

from ._companions import chosen_registry


def apply_patches(
    model: Any = None,
    *,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    on_drift: OnDrift = "warn",
    on_assumption: OnAssumption = "warn",
    registry: Registry | None = None,
) -> Scope:
    """Return a context manager (and decorator) in which models export and after which everything is as it was.

    It yields a `PatchReport`: what was applied, skipped and why, still waits for an import, has drifted. Scopes may
    nest and overlap, in one thread or several. Nothing is imported in order to patch it. Do not confuse it with the
    two functions of this name in transformers (`transformers.exporters.utils`, `transformers.monkey_patching`).
    Where installed packages do not go together, such as torch 2.6 and protobuf 7, so that no ONNX file can be written,
    it gives a `CompanionWarning`, and the report has the sentence in `mismatched`.

    Args:
        model: an `nn.Module`; narrows the specs to those that can matter for its modules.
        include: ids to apply; None means every spec that is for the installed versions.
        exclude: ids not to apply.
        on_drift: what to do where the upstream source is not one that a spec was proved against: `"warn"` applies
            the spec if its signature fits and warns, `"skip"` leaves it out, `"error"` raises.
        on_assumption: what to do where the graph that is captured is right for some of the dynamic sizes only, since
            the model asked for a size in Python: `"warn"` gives an `AssumptionWarning` with the line of the model,
            `"error"` raises an `AssumptionError` where the export would return, `"ignore"` does neither. The report
            has them in each case.
        registry: the specs; None means those of this package.

    Raises:
        SpecError: `registry` is no registry.
        UnknownSpecError: an id is unknown (raised on enter, as are the following).
        NotApplicableError: an included id is not for the installed versions.
        TargetError: the target of an included id does not exist.
        DriftError: the target of an included id has changed so that the spec does not fit.
        RestoreError: something could not be given back (raised on exit; everything else was).
    """
    chosen = chosen_registry(registry)
    return Scope(chosen, model, include=include, exclude=exclude, on_drift=on_drift, on_assumption=on_assumption)


def plan(
    versions: Mapping[str, str | None] | None = None,
    *,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    registry: Registry | None = None,
) -> Plan:
    """Decide for every spec whether it applies, from data alone: torch and transformers need not be installed.

    Args:
        versions: version by package, such as `{"torch": "2.13.0", "transformers": "5.23.0"}`; None as a version
            means "not installed", and a package that is not named has its installed version.
        include: see `apply_patches`.
        exclude: see `apply_patches`.
        registry: see `apply_patches`.

    Raises:
        SpecError: a version is malformed, or is of a package that no spec asks for, or `registry` is no registry.
        UnknownSpecError: an id is unknown.
        NotApplicableError: an included id is not for these versions.
    """
    chosen = chosen_registry(registry)
    return _plan(chosen, Environment(versions), include=include, exclude=exclude)
