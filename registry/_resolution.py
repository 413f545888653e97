"""What an entry into a scope has found, so that a later one need not look for it again."""

import threading
from collections.abc import Hashable
from dataclasses import replace
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

from ._engine import Engine, Replacement
from ._modules import Modules
from ._registry import Registry
from ._report import PatchReport
from ._select import Decision
from ._slots import ABSENT, Lookup, Slot
from ._targets import Target

_KEPT = 8


class Resolution:
    """The places and replacements of one entry, with the evidence that they would be found again.

    Attributes:
        modules: what was loaded.
        watched: the decisions that apply.
        named: the places that some spec names, which belong to it and not to a spec that finds them by a word.
        report: the entry's report without its applied specs; it is copied, never changed.
        warnings: the texts and their classes.
        replacements: in the order in which they were written.
        is_whole: everything was looked at, nothing was left out, and no place held a replacement before.
    """

    def __init__(self, modules: Modules, watched: list[Decision], named: frozenset[str]) -> None:
        self.modules = modules
        self.watched = watched
        self.named = named
        self.report = PatchReport()
        self.warnings: list[tuple[str, type[Warning]]] = []
        self.replacements: list[Replacement] = []
        self.is_whole = True
        self._spread: list[Target] = []
        self._of_spread: list[Lookup] = []
        self._lookups: list[Lookup] = []
        self._places: list[Hashable] = []
        self._values: list[Any] = []
        self._counts: list[tuple[Target, list[int]]] = []
        self._slots: set[Hashable] = set()

    def see(self, target: Target) -> None:
        """Note what a target stands for; call it before its places are looked for."""
        found = target.lookups(self.modules)
        self._look(found)
        if target.is_spread:
            self._spread.append(target)
            self._of_spread += found
        if counts := target.counts():
            self._counts.append((target, counts))

    def see_slot(self, slot: Slot, engine: Engine) -> None:
        """Note what a place holds; call it before a replacement is made."""
        if slot.key not in self._slots:
            self._slots.add(slot.key)
            found = slot.lookups()
            self.is_whole = self.is_whole and bool(found) and not engine.is_held(slot)
            self._look(found, slot.key)

    def _look(self, lookups: list[Lookup], place: Hashable = None) -> None:
        self._lookups += lookups
        self._places += [place] * len(lookups)
        self._values += [space.get(key, ABSENT) for space, key in lookups]

    def finish(self, report: PatchReport, warnings: list[tuple[str, type[Warning]]], modules: Modules) -> bool:
        """Note what the entry says; return whether a later one may repeat it while `modules` are loaded.

        The factories import what they need, and that may be users of a target as well.
        """
        self.report = _copy(report)
        self.warnings = list(warnings)
        if self.is_whole and modules is not self.modules:
            again = [item for target in self._spread for item in target.lookups(modules)]
            # The same namespaces; the keys are those of the targets.
            self.is_whole = [id(space) for space, _ in again] == [id(space) for space, _ in self._of_spread]
            self.modules = modules
        return self.is_whole

    def holds(self, engine: Engine) -> bool:
        """Say whether an entry would find the same again, given that `modules` are loaded.

        Places may hold exactly these replacements already, as they do inside another scope.
        """
        found = [space.get(key, ABSENT) for space, key in self._lookups]
        return (all(map(is_, found, self._values)) or self._are_held(found, engine)) and all(
            target.counts() == counts for target, counts in self._counts
        )

    def _are_held(self, found: list[Any], engine: Engine) -> bool:
        values: dict[Hashable, list[Any]] = {}
        for item in self.replacements:
            values.setdefault(item.slot.key, []).append(item.value)
        held = {key: value[-1] for key, value in values.items() if engine.holds(key, value)}
        written = {id(value) for value in held.values()}
        return all(
            now is seen or place in held or id(now) in written
            for now, seen, place in zip(found, self._values, self._places, strict=True)
        )

    def write(self, report: PatchReport) -> None:
        """Say in `report` what the noted entry has said, but for the applied specs."""
        vars(report).update(vars(_copy(self.report)))


class Resolutions:
    """The last few resolutions of each registry."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakKeyDictionary[Registry, dict[Hashable, Resolution]] = WeakKeyDictionary()

    def get(self, registry: Registry, key: Hashable) -> Resolution | None:
        """Return what is known for `key`."""
        return self._known.get(registry, {}).get(key)

    def keep(self, registry: Registry, key: Hashable, resolution: Resolution) -> None:
        """Keep `resolution` in place of the oldest."""
        with self._lock:
            known = self._known.setdefault(registry, {})
            known.pop(key, None)
            for old in list(known)[: max(len(known) - _KEPT + 1, 0)]:
                del known[old]
            known[key] = resolution


def _copy(report: PatchReport) -> PatchReport:
    pending = {spec_id: list(texts) for spec_id, texts in report.pending.items()}
    unchanged = {spec_id: dict(places) for spec_id, places in report.unchanged.items()}
    return replace(
        report,
        versions=dict(report.versions),
        applied={},
        skipped=dict(report.skipped),
        pending=pending,
        unchanged=unchanged,
        drifted=list(report.drifted),
        mismatched=list(report.mismatched),
        changed=dict(report.changed),
        assumptions=[],
    )
