"""The engine: writes replacements, counts who needs them, and puts the originals back."""

import functools
import logging
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ._errors import ConflictError, RestoreError
from ._signature import mismatch
from ._slots import AttributeSlot, Rewrap, Slot
from ._spec import PatchingSpec
from ._unchanged import Unchanged

_log = logging.getLogger(__name__)


_HITS, _LIVE = 0, 1


class Usage:
    """How often a replacement was called, and whether it is in force."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = [0, 0]
        """Both, as a list: Dynamo takes no object of ours from a method of an object that it has made itself."""

    @property
    def hits(self) -> int:
        """How often it was called."""
        return self.counts[_HITS]


@dataclass(eq=False, slots=True)
class Patch:
    """One slot that holds a replacement.

    Attributes:
        spec: the spec that asked for it.
        slot: the place.
        saved: what the place goes back to.
        original: what callers got from the place.
        value: what was written.
        usage: the counter of the replacement.
        adopted: the place is no target; a module imported the replacement by name.
        users: the number of open scopes that need it.
    """

    spec: PatchingSpec
    slot: Slot
    saved: Any
    original: Any
    value: Any
    usage: Usage
    adopted: bool = False
    users: int = 0


@dataclass(eq=False)
class Replacement:
    """What a spec puts into one slot.

    Attributes:
        spec: the spec.
        slot: the place.
        original: what the factory was given.
        value: what is written.
        problem: why it does not fit the original; None if it fits.
        unchanged: why the factory leaves the place as it is; None if it does not.
        usage: the counter.
    """

    spec: PatchingSpec
    slot: Slot
    original: Any
    value: Any = None
    problem: str | None = None
    unchanged: str | None = None
    usage: Usage = field(default_factory=Usage)


class Engine:
    """All patches of a process. Every method is safe to call from any thread.

    A place holds one patch, or a stack of patches of specs that share it: the last one passes on to the one before.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._stacks: dict[Hashable, list[Patch]] = {}
        self._by_value: dict[int, list[Patch]] = {}
        self._replacements: dict[Hashable, Replacement] = {}

    def patches(self) -> Iterator[Patch]:
        """Yield every patch, those of a place in the order in which they were made."""
        for stack in list(self._stacks.values()):
            yield from stack

    def prepare(self, spec: PatchingSpec, slot: Slot, factory: Callable[[Any], Any]) -> Replacement:
        """Return the replacement of `spec` for `slot`; it is made once for each original.

        Raises:
            ConflictError: the slot holds the replacement of another spec, and the two cannot share it.
        """
        rewrap: Rewrap = _as_it_is
        name = (slot.key, spec.id)
        with self._lock:
            if mine := self._of(spec, slot):
                return Replacement(spec, slot, mine.original, mine.value, usage=mine.usage)
            known, held = self._replacements.get(name), self._top(slot)
            if held and not _can_share(held, spec, slot):
                original = held.original
            else:
                original, rewrap = slot.original()
                original = original if held else self._unpatched(original)
                if known and known.spec == spec and known.original is original:
                    return known
        # The factory may import torch, and an import must not wait for a thread that waits for this lock.
        replacement = _made(spec, slot, original, rewrap, factory)
        if held and replacement.unchanged is None:
            _require_free(held, spec, slot)
        with self._lock:
            if self._top(slot) is held:
                self._replacements[name] = replacement
        return replacement

    def acquire(self, replacement: Replacement, journal: list[Patch]) -> Patch:
        """Make the slot hold `replacement` and note in `journal` that the caller needs it.

        Raises:
            ConflictError: the slot holds the replacement of another spec, and the two cannot share it.
        """
        with self._lock:
            patch = self._of(replacement.spec, replacement.slot) or self._patch(replacement)
            # The journal comes first: whatever interrupts the write, `release` knows of it.
            self._count(patch, journal)
            if patch.users == 1:
                self._write(patch)
            return patch

    def is_held(self, slot: Slot) -> bool:
        """Say whether the place holds the replacement of some spec."""
        return self._top(slot) is not None

    def holds(self, place: Hashable, values: list[Any]) -> bool:
        """Say whether the place with this key holds these values of replacements, one around the other."""
        stack = self._stacks.get(place, ())
        return [id(patch.value) for patch in stack] == [id(value) for value in values]

    def adopt(self, module: ModuleType, journal: list[Patch]) -> None:
        """Note that `module` has imported replacements by name, so that it gets the originals afterwards."""
        with self._lock:
            for name, value in list(vars(module).items()):
                if source := self._holder(value):
                    slot = AttributeSlot(module, name, f"{module.__name__}:{name}")
                    original = source.original
                    made = Patch(source.spec, slot, original, original, value, source.usage, adopted=True)
                    if slot.key not in self._stacks:
                        self._index(made)
                    self._count(self._stacks.setdefault(slot.key, [made])[-1], journal)

    def release(self, journal: list[Patch]) -> None:
        """Undo one scope's journal, last first; the last scope that needs a patch gives the original back.

        The journal is emptied as it is undone, so a call that was interrupted can be repeated.

        Raises:
            RestoreError: some places could not be given back. All others were.
        """
        failed: list[tuple[Patch, BaseException]] = []
        with self._lock:
            while journal:
                patch = journal[-1]
                error = self._restore(patch) if patch.users == 1 else None
                patch.users -= 1
                del journal[-1]
                if error is not None:
                    failed.append((patch, error))
            # A second attempt follows all the first ones: a failure must not stop the others.
            lasting = [(patch, error) for patch, error in failed if self._restore(patch) is not None]
        for patch, error in failed:
            _log.warning("giving back %s failed at first: %r", patch.slot.label, error)
        interrupts = [error for _, error in failed if not isinstance(error, Exception)]
        if lasting:
            raise RestoreError([(patch.slot.label, error) for patch, error in lasting])
        if interrupts:
            raise interrupts[0]

    def _top(self, slot: Slot) -> Patch | None:
        """Return the last patch that some spec has put into `slot`; what was only adopted counts for nothing."""
        stack = self._stacks.get(slot.key)
        return stack[-1] if stack and not stack[-1].adopted else None

    def _of(self, spec: PatchingSpec, slot: Slot) -> Patch | None:
        """Return the patch that a spec itself has put into `slot`."""
        stack = self._stacks.get(slot.key)
        return next((patch for patch in stack if patch.spec == spec and not patch.adopted), None) if stack else None

    def _patch(self, made: Replacement) -> Patch:
        saved = made.slot.read()
        if held := self._top(made.slot):
            _require_free(held, made.spec, made.slot)
        else:
            saved = self._unpatched(saved)
        return Patch(made.spec, made.slot, saved, made.original, made.value, made.usage)

    def _unpatched(self, value: Any) -> Any:
        # A module that was imported inside a scope may hold, by name, the replacement of another place.
        holder = self._holder(value)
        return value if holder is None else holder.original

    def _holder(self, value: Any) -> Patch | None:
        """Return a patch that is in force and whose value this is; None for values that cannot be called."""
        found = self._by_value.get(id(value))
        if found is None:
            return None
        return next((patch for patch in found if patch in self._stacks.get(patch.slot.key, ())), None)

    def _index(self, patch: Patch) -> None:
        # Plain values, such as numbers, may be anywhere.
        if callable(patch.value):
            self._by_value.setdefault(id(patch.value), []).append(patch)

    def _write(self, patch: Patch) -> None:
        stack = self._stacks.get(patch.slot.key, []) if self._top(patch.slot) else []
        self._index(patch)
        # What could not be given back once is still in its place.
        self._stacks[patch.slot.key] = [*(other for other in stack if other is not patch), patch] if stack else [patch]
        try:
            patch.slot.write(patch.value)
        except BaseException:
            # Other threads must not take it for done. If this fails too, `release` tries again and reports it.
            self._restore(patch)
            raise

    def _count(self, patch: Patch, journal: list[Patch]) -> None:
        patch.users += 1
        journal.append(patch)
        if not patch.adopted:
            patch.usage.counts[_LIVE] = True

    def _restore(self, patch: Patch) -> BaseException | None:
        stack = self._stacks.get(patch.slot.key, [])
        if patch not in stack:
            return None
        if not patch.adopted:
            patch.usage.counts[_LIVE] = False
        above = stack[stack.index(patch) + 1 :]
        try:
            if above:
                above[0].saved = patch.saved
            else:
                patch.slot.restore(patch.saved)
        except BaseException as error:
            return error
        rest = [other for other in stack if other is not patch]
        # One step, so that an interrupt leaves no empty stack behind.
        if rest:
            self._stacks[patch.slot.key] = rest
        else:
            del self._stacks[patch.slot.key]
        others = [other for other in self._by_value.pop(id(patch.value), ()) if other is not patch]
        if others:
            self._by_value[id(patch.value)] = others
        return None


def _can_share(patch: Patch, spec: PatchingSpec, slot: Slot) -> bool:
    """Say whether two specs pass on to each other in one place, which each of them has found by a word."""
    return patch.slot.is_shared and slot.is_shared and patch.spec.kind == spec.kind == "wrap"


def _require_free(patch: Patch, spec: PatchingSpec, slot: Slot) -> None:
    if not _can_share(patch, spec, slot):
        raise ConflictError(
            f"target {slot.label!r} is already replaced by spec {patch.spec.id!r} ({patch.spec.definer}); "
            f"spec {spec.id!r} ({spec.definer}) wants it too. Leave one of the scopes, or exclude one id"
        )


def _as_it_is(made: Any) -> Any:
    return made


def _made(spec: PatchingSpec, slot: Slot, original: Any, rewrap: Rewrap, factory: Callable[[Any], Any]) -> Replacement:
    replacement = Replacement(spec, slot, original)
    try:
        made = factory(original)
    except Exception as error:
        replacement.problem = f"the factory of the replacement failed with {error!r}"
        return replacement
    if made is original or isinstance(made, Unchanged):
        replacement.unchanged = made.reason if isinstance(made, Unchanged) else "its factory has returned the original"
        return replacement
    replacement.value = rewrap(_counted(made, original, replacement.usage))
    if callable(made):
        taken = slot.takes or original
        replacement.problem = mismatch(taken, made, spec.kind, follow=slot.takes is None)
    return replacement


def _counted(replacement: Any, original: Any, usage: Usage) -> Any:
    """Wrap `replacement` so that its calls are counted, and so that it is the original once its scope is over.

    Whoever keeps a reference to it (a module that imported it by name, a patcher that wrapped it) is then unharmed.
    """
    if isinstance(replacement, Mapping):
        return {**replacement, "flatten_fn": _counted(replacement["flatten_fn"], replacement["flatten_fn"], usage)}
    if not callable(replacement) or isinstance(replacement, type):
        return replacement

    counts = usage.counts

    @functools.wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        if not counts[_LIVE]:
            return original(*args, **kwargs)
        counts[_HITS] += 1
        return replacement(*args, **kwargs)

    return patched
