"""`Scope`: apply what a plan says, for the time of a `with` block."""

import importlib
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import ContextDecorator
from types import ModuleType, TracebackType
from typing import Any, Literal, NamedTuple, get_args

from packaging.version import Version

from ._assumptions import Assumption, OnAssumption, forget, listen
from ._companions import mismatches
from ._engine import Engine, Patch, Replacement
from ._errors import CompanionWarning, DriftError, DriftWarning, RestoreError, SpecError, TargetError
from ._fingerprint import BUILTIN
from ._late import ImportWatch
from ._modules import LoadedModules, Modules
from ._packages import PACKAGES
from ._registry import Registry
from ._report import Drift, PatchReport, Use
from ._resolution import Resolution, Resolutions
from ._select import Decision, ids_of, plan
from ._slots import Slot
from ._spec import PatchingSpec
from ._targets import Target
from ._versions import Environment

OnDrift = Literal["warn", "skip", "error"]

ENGINE = Engine()
WATCH = ImportWatch()
LOADED = LoadedModules()
RESOLUTIONS = Resolutions()


class Scope(ContextDecorator):
    """Applies the specs of `registry` between enter and exit. As a decorator: around each call.

    Args:
        registry: the specs.
        model: an `nn.Module`; methods of classes that it has no module of are then left alone.
        include: ids to apply; None means every spec whose versions fit.
        exclude: ids not to apply.
        on_drift: what to do where a target's source is not one that was proved: `"warn"` applies the spec if the
            signature fits and warns, `"skip"` leaves the spec out, `"error"` raises.
        on_assumption: what to do where a graph is captured that is right for some of the dynamic sizes only: `"warn"`,
            `"error"` raises, `"ignore"`. The report has it in each case.

    Raises:
        SpecError: `on_drift` or `on_assumption` is none of these.
    """

    def __init__(
        self,
        registry: Registry,
        model: Any = None,
        *,
        include: Collection[str] | None = None,
        exclude: Collection[str] = (),
        on_drift: OnDrift = "warn",
        on_assumption: OnAssumption = "warn",
    ) -> None:
        for name, value, wanted in (
            ("on_drift", on_drift, get_args(OnDrift)),
            ("on_assumption", on_assumption, get_args(OnAssumption)),
        ):
            if value not in wanted:
                raise SpecError(f"{name} is {value!r}; wanted {', '.join(map(repr, wanted))}")
        self._registry = registry
        self._model = model
        self._include = include
        self._exclude = exclude
        self._on_drift = on_drift
        self._on_assumption = on_assumption
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
        entry = _Entry(self._registry, self._model, self._on_drift, self._on_assumption)
        try:
            entry.begin(self._include, self._exclude)
            entry.warn(stacklevel=3)
            self._open.append(entry)
        except BaseException:
            entry.end()
            raise
        return entry.report

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give everything back.

        Raises:
            RestoreError: some targets could not be given back.
        """
        # One object may be entered by several threads, and each leaves what it entered.
        mine = [entry for entry in self._open if entry.thread == threading.get_ident()]
        entry = (mine or self._open)[-1]
        self._open.remove(entry)
        entry.end()

    def _recreate_cm(self) -> "Scope":
        return Scope(
            self._registry,
            self._model,
            include=self._include,
            exclude=self._exclude,
            on_drift=self._on_drift,
            on_assumption=self._on_assumption,
        )


class _Key(NamedTuple):
    """What an entry was asked for, and with what: only equal ones can find the same."""

    specs: int
    versions: tuple[tuple[str, Version | None], ...]
    include: frozenset[str] | None
    exclude: frozenset[str]
    on_drift: OnDrift
    classes: frozenset[type] | None


class _Entry:
    """One entry into a scope."""

    def __init__(self, registry: Registry, model: Any, on_drift: OnDrift, on_assumption: OnAssumption) -> None:
        self.report = PatchReport()
        self.on_assumption = on_assumption
        self.thread = threading.get_ident()
        self._registry = registry
        self._on_drift = on_drift
        self._classes = _classes_of(model)
        # The lock is never held while something is imported: the import may be another thread's, which waits for it.
        self._lock = threading.RLock()
        self._is_over = False
        self._journal: list[Patch] = []
        self._held: set[Hashable] = set()
        self._watched: list[Decision] = []
        self._named: frozenset[str] = frozenset()
        self._executed: set[str] = set()
        self._warnings: list[tuple[str, type[Warning]]] = []
        self._resolution: Resolution | None = None

    def begin(self, include: Collection[str] | None, exclude: Collection[str]) -> None:
        environment = Environment()
        versions = {name: environment[name] for name in dict.fromkeys((*PACKAGES, *self._registry.packages()))}
        key = _Key(
            specs=len(self._registry),
            versions=tuple(versions.items()),
            include=None if include is None else frozenset(ids_of(include)),
            exclude=frozenset(ids_of(exclude)),
            on_drift=self._on_drift,
            classes=None if self._classes is None else frozenset(self._classes),
        )
        known = RESOLUTIONS.get(self._registry, key)
        decisions = [] if known else plan(self._registry, environment, include=include, exclude=exclude)
        self._watched = list(known.watched) if known else [item for item in decisions if item.applies]
        self._named = known.named if known else self._places_named(decisions, environment, key)
        listen(self)
        WATCH.listen(self.imported)
        # The listing comes after the listener, so that no module is imported unseen.
        modules = LOADED.now()
        if known is None or known.modules is not modules or not self._repeat(known):
            decisions = decisions or plan(self._registry, environment, include=include, exclude=exclude)
            self._resolve(decisions, environment, modules, key)

    def _places_named(self, decisions: list[Decision], environment: Environment, key: _Key) -> frozenset[str]:
        # Of those that are not asked for, too: whether a place is free must not differ from scope to scope.
        is_narrowed = key.include is not None or key.exclude
        every = plan(self._registry, environment) if is_narrowed else decisions
        return frozenset(
            place.text for item in every if item.applies for place in item.spec.places if not place.is_spread
        )

    def _repeat(self, known: Resolution) -> bool:
        """Do what an earlier entry has done, if it is known that this one would find the same."""
        if not known.holds(ENGINE):
            return False
        with self._lock:
            # What another thread imports meanwhile would still be said to wait.
            if self._executed:
                return False
            known.write(self.report)
        self._warnings += known.warnings
        for replacement in known.replacements:
            self._acquire(replacement.spec.id, replacement)
        return True

    def _resolve(self, decisions: list[Decision], environment: Environment, modules: Modules, key: _Key) -> None:
        self._compare_companions(environment)
        self.report.changed = dict(self._registry.changed)
        versions = {name: environment[name] for name in (*PACKAGES, *environment)}
        self.report.versions = {name: str(found) if found else None for name, found in versions.items()}
        self._resolution = Resolution(modules, list(self._watched), self._named)
        for decision in decisions:
            if decision.applies:
                self._apply(decision, decision.spec.places, modules)
            else:
                self._skip(decision.spec.id, decision.reason)
        for spec_id in self.report.applied.keys() | self.report.pending.keys():
            self.report.skipped.pop(spec_id, None)
        self._keep(key)

    def _keep(self, key: _Key) -> None:
        """Keep what was found for later entries."""
        with self._lock:
            found, self._resolution = self._resolution, None
            if found is not None and found.finish(self.report, self._warnings, LOADED.now()):
                RESOLUTIONS.keep(self._registry, key, found)

    def end(self) -> None:
        """Give everything back; once more if an interrupt comes in between."""
        try:
            self._end()
        except RestoreError:
            raise
        except BaseException:
            self._end()
            raise

    def imported(self, module: ModuleType) -> None:
        """Patch what waited for `module`, which has just been imported."""
        with self._lock:
            if self._is_over:
                return
            self._executed.add(module.__name__)
            due = [(item, targets) for item in self._watched if (targets := _due(item, module))]
            if self._resolution is not None and any(item.module == module.__name__ for _, one in due for item in one):
                self._resolution.is_whole = False
            for decision, targets in due:
                self._remove_pending(decision.spec.id, targets)
        for decision, targets in due:
            self._apply(decision, targets, Modules([module]), late=True)
        with self._lock:
            if not self._is_over:
                ENGINE.adopt(module, self._journal)
        self.warn(stacklevel=2)

    def warn(self, stacklevel: int) -> None:
        """Give the warnings that have come up, as those of the caller `stacklevel` frames above."""
        texts, self._warnings = self._warnings, []
        for text, category in texts:
            warnings.warn(text, category, stacklevel)

    def _compare_companions(self, environment: Environment) -> None:
        """Note what does not go together. It is no error here: `torch.export` alone may not need it."""
        self.report.mismatched = list(mismatches(self._registry.companions, environment))
        self._warnings += [(text, CompanionWarning) for text in self.report.mismatched]

    def note_assumptions(self, assumptions: Sequence[Assumption]) -> None:
        """Put assumptions into the report, each once."""
        known = self.report.assumptions
        known.extend(item for item in dict.fromkeys(assumptions) if item not in known)

    def _end(self) -> None:
        forget(self)
        WATCH.forget(self.imported)
        with self._lock:
            self._is_over = True
            for uses in self.report.applied.values():
                for use in uses:
                    use.freeze()
            ENGINE.release(self._journal)

    def _apply(self, decision: Decision, targets: Iterable[Target], modules: Modules, late: bool = False) -> None:
        """Apply one spec to those of its `targets` that can be found; if one of them does not fit, to none at all."""
        drifts: list[Drift] = []
        try:
            found = [item for target in targets for item in self._find(decision, target, modules, late, drifts)]
        except (TargetError, DriftError) as error:
            self._withdraw(decision)
            if decision.asked or self._on_drift == "error":
                raise
            self._leave_out(decision, error)
            return
        for drift in drifts:
            self._note(decision, drift)
        for replacement in found:
            self._acquire(decision.spec.id, replacement)
        if not found and not late and decision.spec.id not in self.report.pending:
            self.report.skipped[decision.spec.id] = "nothing that is loaded, or that the model has, is concerned"

    def _find(
        self, decision: Decision, target: Target, modules: Modules, late: bool, drifts: list[Drift]
    ) -> list[Replacement]:
        """Return the replacements for one target; note it where it has to wait for an import."""
        if not late:
            target.require_module(modules)
            if self._must_wait(decision.spec.id, target):
                return []
            if self._resolution is not None:
                self._resolution.see(target)
        slots = [slot for slot in target.slots(modules) if self._concerns(slot)]
        if target.is_spread:
            # A place that another spec names belongs to that one.
            slots = [slot for slot in slots if slot.label not in self._named]
        if not slots:
            return []
        self._see(slots, late)
        factory = _factory(decision.spec)
        prepared = [ENGINE.prepare(decision.spec, slot, factory) for slot in slots]
        if left := {item.slot.label: item.unchanged for item in prepared if item.unchanged is not None}:
            self.report.unchanged.setdefault(decision.spec.id, {}).update(left)
        replacements = [item for item in prepared if item.unchanged is None]
        for replacement in replacements:
            if replacement.problem:
                raise DriftError(_drifted(decision, replacement.slot.label, replacement.problem))
        drifts.extend(self._source_drifts(decision, target))
        return replacements

    def _see(self, slots: list[Slot], late: bool) -> None:
        """Note what the places hold before replacements are made for them."""
        if self._resolution is not None and not late:
            for slot in slots:
                self._resolution.see_slot(slot, ENGINE)

    def _source_drifts(self, decision: Decision, target: Target) -> list[Drift]:
        proved, source = decision.spec.fingerprints, target.source()
        if proved is None or source is None:
            return []
        found = proved.of(source)
        releases = proved.releases(target.text)
        if found in releases or found == BUILTIN:
            return []
        what = f"its source ({found}) is none of the {len(releases)} that the spec was proved against"
        if self._on_drift != "warn":
            raise DriftError(_drifted(decision, target.text, what))
        return [Drift(decision.spec.id, target.text, what, True)]

    def _note(self, decision: Decision, drift: Drift) -> None:
        # A decorator's users are imported one by one; its own source drifts once.
        if drift not in self.report.drifted:
            self.report.drifted.append(drift)
            text = f"{_drifted(decision, drift.target, drift.what)}; applied, as the signature fits"
            self._warnings.append((text, DriftWarning))

    def _withdraw(self, decision: Decision) -> None:
        """Take back what one spec has patched so far."""
        spec_id = decision.spec.id
        with self._lock:
            self.report.pending.pop(spec_id, None)
            for use in self.report.applied.pop(spec_id, []):
                use.freeze()
            mine = [patch for patch in self._journal if patch.spec == decision.spec]
            self._held -= {(patch.slot.key, decision.spec.id) for patch in mine}
            self._journal = [patch for patch in self._journal if patch.spec != decision.spec]
            ENGINE.release(mine)

    def _leave_out(self, decision: Decision, error: TargetError | DriftError) -> None:
        self._watched = [item for item in self._watched if item is not decision]
        if self._resolution is not None:
            self._resolution.is_whole = False
        self.report.skipped[decision.spec.id] = str(error)
        self.report.drifted.append(Drift(decision.spec.id, ", ".join(decision.spec.targets), str(error), False))
        if self._on_drift == "warn":
            self._warnings.append((f"{error}; the spec was left out", DriftWarning))

    def _skip(self, spec_id: str, reason: str) -> None:
        reasons = self.report.skipped.get(spec_id, reason).split("; ")
        self.report.skipped[spec_id] = "; ".join(dict.fromkeys([*reasons, *reason.split("; ")]))

    def _acquire(self, spec_id: str, replacement: Replacement) -> None:
        with self._lock:
            place = (replacement.slot.key, spec_id)
            if self._is_over or place in self._held:
                return
            self._held.add(place)
            use = Use(ENGINE.acquire(replacement, self._journal))
            if self._resolution is not None:
                self._resolution.replacements.append(replacement)
            self.report.applied.setdefault(spec_id, []).append(use)
            self.report.skipped.pop(spec_id, None)

    def _must_wait(self, spec_id: str, target: Target) -> bool:
        with self._lock:
            # A module that another thread imports has been executed a moment before Python calls it ready.
            if target.is_loaded() or target.module in self._executed:
                return False
            self.report.pending.setdefault(spec_id, []).append(target.text)
            if self._resolution is not None and target.module in sys.modules:
                # It will be ready without any change of what is loaded.
                self._resolution.is_whole = False
            return True

    def _remove_pending(self, spec_id: str, targets: Iterable[Target]) -> None:
        done = {target.text for target in targets}
        texts = [text for text in self.report.pending.pop(spec_id, []) if text not in done]
        if texts:
            self.report.pending[spec_id] = texts

    def _concerns(self, slot: Slot) -> bool:
        is_module_class = isinstance(slot.owner, type) and hasattr(slot.owner, "named_modules")
        return self._classes is None or not is_module_class or slot.owner in self._classes


def _due(decision: Decision, module: ModuleType) -> list[Target]:
    """Return the targets of a spec for which something is to do now that `module` has been imported."""
    return [
        target
        for target in decision.spec.places
        if target.module == module.__name__ or (target.is_spread and target.is_loaded())
    ]


def _classes_of(model: Any) -> set[type] | None:
    if model is None:
        return None
    if not hasattr(model, "modules"):
        raise SpecError(f"model is a {type(model).__name__}; wanted an nn.Module, or None for every spec")
    return {base for cls in set(map(type, model.modules())) for base in cls.__mro__}


def _factory(spec: PatchingSpec) -> Callable[[Any], Any]:
    module, _, attribute = spec.replacement.partition(":")
    try:
        factory: Callable[[Any], Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SpecError(
            f"spec {spec.id!r} ({spec.definer}): replacement {spec.replacement!r} cannot be had: {error}; "
            "write the module and name of a factory"
        ) from error
    return factory


def _drifted(decision: Decision, target: str, what: str) -> str:
    return (
        f"spec {decision.spec.id!r}: target {target!r} has drifted: {what} ({decision.reason}). "
        "Report it with your versions; exclude the id to do without it"
    )
