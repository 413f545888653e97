"""`Scope`: apply what a plan says, for the time of a `with` block."""

import importlib
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterable
from contextlib import ContextDecorator
from types import ModuleType, TracebackType
from typing import Any, Literal, get_args

from ._engine import Engine, Patch, Replacement
from ._errors import DriftError, DriftWarning, SpecError, TargetError
from ._fingerprint import BUILTIN, fingerprint
from ._late import ImportWatch
from ._registry import Registry
from ._report import Drift, PatchReport, Use
from ._select import Decision, plan
from ._slots import Slot
from ._targets import DecoratedTarget, Target
from ._versions import Environment

OnDrift = Literal["warn", "skip", "error"]

ENGINE = Engine()
WATCH = ImportWatch()


class Scope(ContextDecorator):
    """Applies the specs of `registry` between enter and exit. As a decorator: around each call.

    Args:
        registry: the specs.
        model: an `nn.Module`; methods of classes that it has no module of are then left alone.
        include: ids to apply; None means every spec whose versions fit.
        exclude: ids not to apply.
        on_drift: what to do where a target's source is not one that was proved: `"warn"` applies the spec if the
            signature fits and warns, `"skip"` leaves the spec out, `"error"` raises.

    Raises:
        SpecError: `on_drift` is none of these.
    """

    def __init__(
        self,
        registry: Registry,
        model: Any = None,
        *,
        include: Collection[str] | None = None,
        exclude: Collection[str] = (),
        on_drift: OnDrift = "warn",
    ) -> None:
        if on_drift not in get_args(OnDrift):
            raise SpecError(f"on_drift is {on_drift!r}; wanted {', '.join(map(repr, get_args(OnDrift)))}")
        self._registry = registry
        self._model = model
        self._include = include
        self._exclude = exclude
        self._on_drift = on_drift
        self._open: list[_Entry] = []

    def __enter__(self) -> PatchReport:
        """Apply.

        Raises:
            UnknownSpecError: an included or excluded id is unknown.
            NotApplicableError: an included id is not for these versions.
            TargetError: an included id, or any with `on_drift="error"`, has a target that does not resolve.
            DriftError: likewise, a target differs from what was proved.
            ConflictError: a target is held by another registry's spec.
        """
        entry = _Entry(self._registry, self._model, self._on_drift)
        try:
            entry.begin(self._include, self._exclude)
            entry.warn(stacklevel=3)
        except BaseException:
            entry.end()
            raise
        self._open.append(entry)
        return entry.report

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give everything back.

        Raises:
            RestoreError: some targets could not be given back.
        """
        self._open.pop().end()

    def _recreate_cm(self) -> "Scope":
        return Scope(
            self._registry, self._model, include=self._include, exclude=self._exclude, on_drift=self._on_drift
        )


class _Entry:
    """One entry into a scope."""

    def __init__(self, registry: Registry, model: Any, on_drift: OnDrift) -> None:
        self.report = PatchReport()
        self._registry = registry
        self._on_drift = on_drift
        self._journal: list[Patch] = []
        self._waiting: list[tuple[Decision, Target]] = []
        self._warnings: list[str] = []
        self._lock = threading.RLock()
        self._classes = _classes_of(model)

    def begin(self, include: Collection[str] | None, exclude: Collection[str]) -> None:
        environment = Environment()
        decisions = plan(self._registry, environment, include=include, exclude=exclude)
        self.report.versions = {name: version and str(version) for name, version in environment.items()}
        modules = list(sys.modules.values())
        with self._lock:
            WATCH.listen(self.imported)
            for decision in decisions:
                if decision.applies:
                    self._apply(decision, decision.spec.places, modules)
                else:
                    self.report.skipped.setdefault(decision.spec.id, decision.reason)
        for spec_id in self.report.applied.keys() | self.report.pending.keys():
            self.report.skipped.pop(spec_id, None)

    def end(self) -> None:
        WATCH.forget(self.imported)
        with self._lock:
            for uses in self.report.applied.values():
                for use in uses:
                    use.freeze()
            journal, self._journal = self._journal, []
            ENGINE.release(journal)

    def imported(self, module: ModuleType) -> None:
        """Patch what waited for `module`, which has just been imported."""
        with self._lock:
            for decision, target in list(self._waiting):
                is_own = target.module == module.__name__
                if is_own:
                    self._remove_pending(decision.spec.id, target)
                if is_own and not isinstance(target, DecoratedTarget):
                    self._waiting.remove((decision, target))
                if is_own or (isinstance(target, DecoratedTarget) and target.is_loaded()):
                    self._apply(decision, (target,), [module], late=True)
            ENGINE.adopt(module, self._journal)
        self.warn(stacklevel=2)

    def warn(self, stacklevel: int) -> None:
        """Give the warnings that have come up, as those of the caller `stacklevel` frames above."""
        while self._warnings:
            warnings.warn(self._warnings.pop(0), DriftWarning, stacklevel)

    def _apply(
        self, decision: Decision, targets: Iterable[Target], modules: list[ModuleType], late: bool = False
    ) -> None:
        try:
            found = [pair for target in targets for pair in self._find(decision, target, modules, late)]
        except (TargetError, DriftError) as error:
            self._refuse(decision, error)
            return
        for replacement in found:
            self._acquire(decision.spec.id, replacement)
        if not found and not late and decision.spec.id not in self.report.pending:
            self.report.skipped[decision.spec.id] = "nothing that is loaded, or that the model has, is concerned"

    def _find(
        self, decision: Decision, target: Target, modules: list[ModuleType], late: bool
    ) -> list[Replacement]:
        """Return the replacements for one target; note it where it has to wait for an import."""
        if not late:
            if isinstance(target, DecoratedTarget):
                self._waiting.append((decision, target))
            if not target.is_loaded():
                target.require_module()
                self._wait(decision, target)
                return []
        slots = [slot for slot in target.slots(modules) if self._concerns(slot)]
        replacements = [ENGINE.prepare(decision.spec, slot, _factory(decision.spec.replacement)) for slot in slots]
        for replacement in replacements:
            if replacement.problem:
                raise DriftError(_drifted(decision, replacement.slot.label, replacement.problem))
        if slots:
            self._check_source(decision, target)
        return replacements

    def _check_source(self, decision: Decision, target: Target) -> None:
        proved = self._registry.fingerprints
        if proved is None:
            return
        found = fingerprint(target.source())
        releases = proved.releases(target.text)
        if found in releases or found == BUILTIN:
            return
        what = f"its source ({found}) is none of the {len(releases)} that the spec was proved against"
        if self._on_drift != "warn":
            raise DriftError(_drifted(decision, target.text, what))
        self.report.drifted.append(Drift(decision.spec.id, target.text, what, True))
        self._warnings.append(f"{_drifted(decision, target.text, what)}; applied, as the signature fits")

    def _refuse(self, decision: Decision, error: TargetError | DriftError) -> None:
        """Leave one spec out, or raise if the caller asked for it or for an error."""
        if decision.asked or self._on_drift == "error":
            raise error
        self.report.skipped[decision.spec.id] = str(error)
        self.report.drifted.append(Drift(decision.spec.id, ", ".join(decision.spec.targets), str(error), False))
        if self._on_drift == "warn":
            self._warnings.append(f"{error}; the spec was left out")

    def _acquire(self, spec_id: str, replacement: Replacement) -> None:
        use = Use(ENGINE.acquire(replacement, self._journal))
        self.report.applied.setdefault(spec_id, []).append(use)

    def _wait(self, decision: Decision, target: Target) -> None:
        if (decision, target) not in self._waiting:
            self._waiting.append((decision, target))
        self.report.pending.setdefault(decision.spec.id, []).append(target.text)

    def _remove_pending(self, spec_id: str, target: Target) -> None:
        texts = self.report.pending.get(spec_id, [])
        if target.text in texts:
            texts.remove(target.text)
        if not texts:
            self.report.pending.pop(spec_id, None)

    def _concerns(self, slot: Slot) -> bool:
        is_module_class = isinstance(slot.owner, type) and hasattr(slot.owner, "named_modules")
        return self._classes is None or not is_module_class or slot.owner in self._classes


def _classes_of(model: Any) -> set[type] | None:
    if model is None:
        return None
    return {cls for module in model.modules() for cls in type(module).__mro__}


def _factory(name: str) -> Callable[[Any], Any]:
    module, _, attribute = name.partition(":")
    factory: Callable[[Any], Any] = getattr(importlib.import_module(module), attribute)
    return factory


def _drifted(decision: Decision, target: str, what: str) -> str:
    return (
        f"spec {decision.spec.id!r}: target {target!r} has drifted: {what} ({decision.reason}). "
        "Report it with your versions; exclude the id to do without it"
    )
