"""A failure at any write or restore leaves nothing behind, or says exactly what it leaves."""

import linecache
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

import pytest

from exportcompat import apply_patches
from exportcompat.registry import PatchingSpec, Registry, RestoreError, _engine, _late, _scope
from exportcompat.registry._scope import ENGINE
from exportcompat.registry._slots import AttributeSlot, ItemSlot

MakeSpec = Callable[..., PatchingSpec]
TARGETS = [
    "fakepkg:f",
    "fakepkg:Thing.method",
    "fakepkg:Thing.greet",
    "fakepkg:Thing.name",
    "fakepkg:Thing.size",
    "fakepkg:TABLE[item]",
    "fakepkg:LEVELS[item]",
]
NUMBERS = range(1, len(TARGETS) + 1)
ERRORS = [OSError, KeyboardInterrupt]


@pytest.fixture
def registry(fakepkg: ModuleType, make_spec: MakeSpec) -> Registry:
    """Return a registry with a spec of two targets and several of one."""
    single = [make_spec(target, id=f"spec-{index}") for index, target in enumerate(TARGETS[2:])]
    return Registry([make_spec(*TARGETS[:2], id="double"), *single])


@pytest.fixture
def before(fakepkg: Any, snapshot: Any) -> Any:
    """Return a snapshot of all namespaces of the fake package."""
    levels = type(fakepkg.LEVELS)
    return snapshot(fakepkg, fakepkg.Base, fakepkg.Thing, fakepkg.TABLE, fakepkg.LEVELS.own, levels, levels.shared)


@pytest.fixture
def breakage() -> Iterator[pytest.MonkeyPatch]:
    """Return what `break_at` uses, so that a test can mend the slots."""
    with pytest.MonkeyPatch.context() as patcher:
        yield patcher


@pytest.fixture
def break_at(breakage: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that makes the slots' `name` fail at call `number`, once or whenever that slot is used."""

    def install(name: str, number: int, error: type[BaseException], *, always: bool, late: bool = False) -> list[str]:
        labels: list[str] = []

        def wrap(original: Callable[..., None]) -> Callable[..., None]:
            def failing(slot: Any, value: Any) -> None:
                labels.append(slot.label)
                is_chosen = len(labels) == number or (always and slot.label in labels[number - 1 : number])
                if is_chosen and late:
                    original(slot, value)
                if is_chosen:
                    raise error(f"failed at {slot.label}")
                original(slot, value)

            return failing

        for cls in (AttributeSlot, ItemSlot):
            breakage.setattr(cls, name, wrap(getattr(cls, name)))
        return labels

    return install


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_failing_write(
    registry: Registry, before: Any, break_at: Callable[..., list[str]], number: int, error: Any, late: bool
) -> None:
    labels = break_at("write", number, error, always=False, late=late)
    with pytest.raises(error, match="failed at"), apply_patches(registry=registry):
        pytest.fail("The body must not run.")
    assert len(labels) == number
    assert before.changes() == []
    with apply_patches(registry=registry) as report:
        assert sum(map(len, report.applied.values())) == len(TARGETS)
    assert before.changes() == []


@pytest.mark.parametrize("number", NUMBERS)
def test_a_failing_write_of_an_inner_scope_keeps_the_outer_one(
    registry: Registry, before: Any, snapshot: Any, fakepkg: Any, break_at: Callable[..., list[str]], number: int
) -> None:
    with apply_patches(registry=registry, include="double"):
        inside = snapshot(fakepkg, fakepkg.Thing, fakepkg.TABLE)
        labels = break_at("write", number, OSError, always=True)
        if number <= len(TARGETS) - 2:
            with pytest.raises(OSError, match="failed at"), apply_patches(registry=registry):
                pytest.fail("The body must not run.")
        assert len(labels) == min(number, len(TARGETS) - 2) or number > len(TARGETS) - 2
        assert inside.changes() == []
        assert fakepkg.f(1) == ("patched", 1)
    assert before.changes() == []


@pytest.mark.parametrize("number", NUMBERS)
def test_a_write_and_its_restore_that_both_fail(
    registry: Registry, before: Any, break_at: Callable[..., list[str]], number: int
) -> None:
    break_at("write", number, OSError, always=False, late=True)
    break_at("restore", 1, RuntimeError, always=False)
    with pytest.raises(OSError, match="failed at"), apply_patches(registry=registry):
        pytest.fail("The body must not run.")
    assert before.changes() == []


def test_a_failed_write_is_not_taken_for_done_by_a_scope_that_comes_in_between(
    registry: Registry,
    before: Any,
    fakepkg: Any,
    break_at: Callable[..., list[str]],
    breakage: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []
    original = _scope._Entry.end

    def end(entry: Any) -> None:
        breakage.setattr(_scope._Entry, "end", original)
        with apply_patches(registry=registry):
            original(entry)
            seen.append(fakepkg.f(1))

    breakage.setattr(_scope._Entry, "end", end)
    break_at("write", 1, OSError, always=False)
    with pytest.raises(OSError, match="failed at"), apply_patches(registry=registry):
        pytest.fail("The body must not run.")
    assert seen == [("patched", 1)]
    assert before.changes() == []


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_restore_that_fails_once_is_made_good(
    registry: Registry,
    before: Any,
    break_at: Callable[..., list[str]],
    caplog: pytest.LogCaptureFixture,
    number: int,
    late: bool,
) -> None:
    labels = break_at("restore", number, OSError, always=False, late=late)
    with caplog.at_level(logging.WARNING), apply_patches(registry=registry):
        pass
    assert before.changes() == []
    assert caplog.messages == [f"giving back {labels[number - 1]} failed at first: OSError('failed at {labels[-1]}')"]


@pytest.mark.parametrize("number", NUMBERS)
def test_an_interrupt_during_a_restore_comes_through_at_the_end(
    registry: Registry, before: Any, break_at: Callable[..., list[str]], number: int
) -> None:
    break_at("restore", number, KeyboardInterrupt, always=False)
    with pytest.raises(KeyboardInterrupt), apply_patches(registry=registry):
        pass
    assert before.changes() == []


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_restore_that_always_fails_is_the_only_one_left(
    registry: Registry,
    before: Any,
    fakepkg: Any,
    break_at: Callable[..., list[str]],
    breakage: pytest.MonkeyPatch,
    number: int,
    error: Any,
) -> None:
    labels = break_at("restore", number, error, always=True)
    with pytest.raises(RestoreError) as caught, apply_patches(registry=registry):
        pass
    (left,) = labels[number - 1 : number]
    assert [label for label, _ in caught.value.errors] == [left]
    assert str(caught.value).startswith(
        "1 of the patched targets could not be given back; all others were.\n"
        f"  {left}: {error.__name__}: failed at {left}\n"
    )
    assert len(before.changes()) == 1
    assert fakepkg.f(1) == 1
    assert fakepkg.Thing().method(1) == 1
    assert fakepkg.LEVELS["item"](1) == fakepkg.TABLE["item"](1) == 1
    # A later scope works with what is left, and gives it back if it can.
    breakage.undo()
    with apply_patches(registry=registry):
        assert fakepkg.f(1) == ("patched", 1)
        assert fakepkg.LEVELS["item"](1) == ("patched", 1)
    assert before.changes() == []


def test_an_error_in_the_body_is_the_context_of_a_restore_error(
    registry: Registry, break_at: Callable[..., list[str]]
) -> None:
    break_at("restore", 1, OSError, always=True)
    with pytest.raises(RestoreError) as caught, apply_patches(registry=registry):
        raise ValueError("from the body")
    assert isinstance(caught.value.__context__, ValueError)
    ENGINE._stacks.clear()


def test_an_inner_scope_does_not_restore_what_an_outer_one_needs(
    registry: Registry, break_at: Callable[..., list[str]]
) -> None:
    with apply_patches(registry=registry):
        labels = break_at("restore", 1, OSError, always=False)
        with apply_patches(registry=registry):
            pass
        assert labels == []


LINES = frozenset({_engine.__file__, _scope.__file__, _late.__file__})


@contextmanager
def interrupted_at(line: int) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt before the engine's line number `line`, counted as they are executed."""
    seen = [0]

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in LINES:
            return None
        # Python looks for signals at calls and jumps, and so not between a with block and the release of its lock.
        if event == "line" and not linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(
            "with"
        ):
            seen[0] += 1
            if seen[0] == line:
                raise KeyboardInterrupt
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(previous)


def lines_of_entry(registry: Registry) -> int:
    """Return how many lines of the engine are executed when a scope is entered."""
    scope = apply_patches(registry=registry)
    with interrupted_at(-1) as seen:
        scope.__enter__()
    scope.__exit__(None, None, None)
    return seen[0]


def test_an_interrupt_at_any_line_of_the_entry(registry: Registry, before: Any) -> None:
    lines_of_entry(registry)
    total = lines_of_entry(registry)
    assert total > 100
    # The last line hands the report over; what comes after it is the caller's.
    for line in range(1, total):
        with pytest.raises(KeyboardInterrupt), interrupted_at(line):
            apply_patches(registry=registry).__enter__()
        assert before.changes() == [], line
        assert ENGINE._stacks == {}, line


def test_an_interrupt_at_any_line_of_the_exit(registry: Registry, before: Any) -> None:
    def leave(line: int) -> int:
        scope = apply_patches(registry=registry)
        scope.__enter__()
        entry = scope._open[-1]
        with interrupted_at(line) as seen:
            entry.end()
        return seen[0]

    total = leave(-1)
    assert total > 50
    # The first lines stand before the try.
    for line in range(3, total + 1):
        with pytest.raises(KeyboardInterrupt):
            leave(line)
        assert before.changes() == [], line
        assert ENGINE._stacks == {}, line
