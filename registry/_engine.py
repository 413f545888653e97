"""The engine: writes replacements, counts who needs them, and puts the originals back."""

import functools
import logging
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ._errors import ConflictError, RestoreError
from ._signature import mismatch
from ._slots import AttributeSlot, Slot
from ._spec import PatchingSpec

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Usage:
    """How often a replacement was called, and whether it is in force."""

    hits: int = 0
    live: bool = False


@dataclass(eq=False)
class Patch:
    """One slot that holds a replacement.

    Attributes:
        spec: the spec that asked for it.
        slot: the place.
        saved: what the place goes back to.
        original: what callers got from the place.
        value: what was written.
        usage: the counter of the replacement.
        users: the number of open scopes that need it.
    """

    spec: PatchingSpec
    slot: Slot
    saved: Any
    original: Any
    value: Any
    usage: Usage
    users: int = 0


@dataclass(eq=False)
class Replacement:
    """What a spec puts into one slot.

    Attributes:
        spec: the spec.
        slot: the place.
        original: what the factory was given.
        value: what is written.
        problem: how the signature does not fit the original; None if it fits.
        usage: the counter.
    """

    spec: PatchingSpec
    slot: Slot
    original: Any
    value: Any = None
    problem: str | None = None
    usage: Usage = field(default_factory=Usage)


class Engine:
    """All patches of a process. Every method is safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._patches: dict[Hashable, Patch] = {}
        self._replacements: dict[Hashable, Replacement] = {}

    def prepare(self, spec: PatchingSpec, slot: Slot, factory: Callable[[Any], Any]) -> Replacement:
        """Return the replacement of `spec` for `slot`; it is made once for each original.

        Raises:
            ConflictError: the slot holds the replacement of another spec.
        """
        with self._lock:
            known = self._replacements.get(slot.key)
            if patch := self._patches.get(slot.key):
                _require_same(patch, spec, slot)
            original, rewrap = slot.original()
            if known and known.spec == spec and (patch or known.original is original):
                return known
        # The factory may import torch, and an import must not wait for a thread that waits for this lock.
        made = factory(original)
        replacement = Replacement(spec, slot, original)
        replacement.value = rewrap(_counted(made, original, replacement.usage))
        if callable(made):
            taken = slot.takes or original
            replacement.problem = mismatch(taken, made, spec.kind, follow=slot.takes is None)
        with self._lock:
            if slot.key not in self._patches:
                self._replacements[slot.key] = replacement
        return replacement

    def acquire(self, replacement: Replacement, journal: list[Patch]) -> Patch:
        """Make the slot hold `replacement` and note in `journal` that the caller needs it.

        Raises:
            ConflictError: the slot holds the replacement of another spec.
        """
        with self._lock:
            patch = self._patches.get(replacement.slot.key)
            if patch is None:
                patch = self._write(replacement)
            _require_same(patch, replacement.spec, replacement.slot)
            self._count(patch, journal)
            return patch

    def adopt(self, module: ModuleType, journal: list[Patch]) -> None:
        """Note that `module` has imported replacements by name, so that it gets the originals afterwards."""
        with self._lock:
            by_value = {id(patch.value): patch for patch in self._patches.values() if callable(patch.value)}
            for name, value in list(vars(module).items()):
                if source := by_value.get(id(value)):
                    slot = AttributeSlot(module, name, f"{module.__name__}:{name}")
                    known = self._patches.get(slot.key)
                    original = source.original
                    patch = known or Patch(source.spec, slot, original, original, value, source.usage)
                    self._patches[slot.key] = patch
                    self._count(patch, journal)

    def release(self, journal: Sequence[Patch]) -> None:
        """Undo one scope's journal, last first; the last scope that needs a patch gives the original back.

        Raises:
            RestoreError: some places could not be given back. All others were.
        """
        with self._lock:
            idle = [patch for patch in reversed(journal) if self._leave(patch)]
            # A second attempt follows all the first ones: a failure must not stop the others.
            failed = [(patch, error) for patch in idle if (error := self._restore(patch)) is not None]
            lasting = [(patch, error) for patch, error in failed if self._restore(patch) is not None]
        for patch, error in failed:
            _log.warning("giving back %s failed at first: %r", patch.slot.label, error)
        interrupts = [error for _, error in failed if not isinstance(error, Exception)]
        if lasting:
            raise RestoreError([(patch.slot.label, error) for patch, error in lasting])
        if interrupts:
            raise interrupts[0]

    def _write(self, made: Replacement) -> Patch:
        slot = made.slot
        patch = Patch(made.spec, slot, slot.read(), made.original, made.value, made.usage)
        try:
            slot.write(made.value)
        except BaseException:
            self._restore(patch)
            raise
        self._patches[slot.key] = patch
        return patch

    def _count(self, patch: Patch, journal: list[Patch]) -> None:
        patch.users += 1
        patch.usage.live = True
        journal.append(patch)

    def _leave(self, patch: Patch) -> bool:
        patch.users -= 1
        return patch.users == 0

    def _restore(self, patch: Patch) -> BaseException | None:
        patch.usage.live = False
        try:
            patch.slot.restore(patch.saved)
        except BaseException as error:
            return error
        self._patches.pop(patch.slot.key, None)
        return None


def _require_same(patch: Patch, spec: PatchingSpec, slot: Slot) -> None:
    if patch.spec != spec:
        raise ConflictError(
            f"target {slot.label!r} is already replaced by spec {patch.spec.id!r} ({patch.spec.definer}); "
            f"spec {spec.id!r} ({spec.definer}) wants it too. Leave one of the scopes, or exclude one id"
        )


def _counted(replacement: Any, original: Any, usage: Usage) -> Any:
    """Wrap `replacement` so that its calls are counted, and so that it is the original once its scope is over.

    Whoever keeps a reference to it (a module that imported it by name, a patcher that wrapped it) is then unharmed.
    """
    if isinstance(replacement, Mapping):
        return {**replacement, "flatten_fn": _counted(replacement["flatten_fn"], replacement["flatten_fn"], usage)}
    if not callable(replacement) or isinstance(replacement, type):
        return replacement

    @functools.wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        if not usage.live:
            return original(*args, **kwargs)
        usage.hits += 1
        return replacement(*args, **kwargs)

    return patched
