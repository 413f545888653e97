"""What holds for every spec of the package, on the versions that are installed."""

import importlib
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exportcompat import DriftWarning, apply_patches, plan
from exportcompat.registry import PACKAGES, RestoreError
from exportcompat.registry._scope import ENGINE
from exportcompat.registry._slots import AttributeSlot, ItemSlot, PytreeSlot, Slot

pytestmark = pytest.mark.filterwarnings("ignore::exportcompat.registry.DriftWarning")

# What the specs are about; a decorator is about the modules that use it.
MODULES = [
    "torch.export._trace",
    "transformers",
    "transformers.models.phi3.modeling_phi3",
    "transformers.models.idefics3.modeling_idefics3",
    "transformers.models.glm4v.modeling_glm4v",
    "transformers.models.swin.modeling_swin",
    "transformers.models.bart.modeling_bart",
    "transformers.models.m2m_100.modeling_m2m_100",
]
TABLES = [
    ("torch.utils._pytree", "SUPPORTED_NODES"),
    ("torch.utils._pytree", "SUPPORTED_SERIALIZED_TYPES"),
    ("torch.utils._pytree", "SERIALIZED_TYPE_TO_PYTHON_TYPE"),
    ("torch.fx._pytree", "SUPPORTED_NODES"),
    ("torch.fx._pytree", "SUPPORTED_NODES_EXACT_MATCH"),
]
DECISIONS = plan()
APPLYING = list(dict.fromkeys(item.spec.id for item in DECISIONS if item.applies))


@cache
def places() -> dict[str, list[tuple[Slot, Any]]]:
    """Return, for each spec that applies, its slots and what they hold without a scope."""
    targets = [place.module for item in DECISIONS if item.applies for place in item.spec.places]
    for name in (*MODULES, *targets):
        importlib.import_module(name)
    found: dict[str, list[Slot]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        with apply_patches():
            for patch in ENGINE.patches():
                found.setdefault(patch.spec.id, []).append(patch.slot)
    # What a patch has saved may be another spec's: two may write to one place.
    return {spec_id: [(slot, slot.read()) for slot in slots] for spec_id, slots in found.items()}


def owners() -> list[Any]:
    """Return every namespace and table that a spec touches."""
    # This imports what the tables are in.
    slots = [slot for pairs in places().values() for slot, _ in pairs]
    found: list[Any] = [vars(sys.modules[module])[name] for module, name in TABLES]
    for slot in slots:
        if isinstance(slot, ItemSlot):
            found += slot._stores()
        elif isinstance(slot, AttributeSlot):
            found.append(slot.owner)
    return list({id(item): item for item in found}.values())


@pytest.fixture
def before(snapshot: Any) -> Any:
    """Return a snapshot of everything that a spec touches."""
    return snapshot(*owners())


def is_replaced(spec_id: str) -> list[bool]:
    """Say for each place of a spec whether it holds something else than without a scope."""
    return [slot.read() != saved for slot, saved in places()[spec_id]]


def test_some_specs_apply() -> None:
    assert len(APPLYING) > 3
    assert sorted(places()) == sorted(APPLYING)


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda item: f"{item.spec.id}:{item.spec.requires[0]}")
def test_every_decision_has_a_reason(decision: Any) -> None:
    versions = [f"{name} " for name in PACKAGES]
    assert any(name in decision.reason for name in versions)
    assert (" is not in " in decision.reason or "is not installed" in decision.reason) is not decision.applies


def test_what_is_left_out_is_in_the_report_with_its_reason() -> None:
    with apply_patches() as report:
        pass
    known = {item.spec.id for item in DECISIONS}
    assert set(report.applied) | set(report.skipped) | set(report.pending) == known
    assert set(report.applied).isdisjoint(report.skipped)
    assert all(report.skipped.values())
    assert [item for item in report.drifted if not item.applied] == []


@pytest.mark.parametrize("spec_id", APPLYING)
def test_enter_and_exit(before: Any, spec_id: str) -> None:
    with apply_patches(include=spec_id) as report:
        assert list(report.applied) == [spec_id]
        assert all(is_replaced(spec_id))
        own = {slot.key for slot, _ in places()[spec_id]}
        others = [pair for other in APPLYING if other != spec_id for pair in places()[other]]
        assert not any(slot.read() != saved for slot, saved in others if slot.key not in own)
    assert before.changes() == []


@pytest.mark.parametrize("spec_id", APPLYING)
def test_nested_and_twice(before: Any, snapshot: Any, spec_id: str) -> None:
    for _ in range(2):
        with apply_patches(include=spec_id):
            inside = snapshot(*owners())
            with apply_patches(include=spec_id), apply_patches():
                assert all(is_replaced(spec_id))
            assert inside.changes() == []
        assert before.changes() == []


@pytest.mark.parametrize("spec_id", APPLYING)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_in_the_body(before: Any, spec_id: str, error: type[BaseException]) -> None:
    with pytest.raises(error), apply_patches(include=spec_id):
        raise error
    assert before.changes() == []


@contextmanager
def failing_at(name: str, number: int, *, late: bool) -> Iterator[list[str]]:
    """Make `write` or `restore` of the slots fail at call `number`, before its work or after it."""
    labels: list[str] = []

    def wrap(original: Callable[..., None]) -> Callable[..., None]:
        def failing(slot: Any, value: Any) -> None:
            labels.append(slot.label)
            is_chosen = len(labels) == number
            if late or not is_chosen:
                original(slot, value)
            if is_chosen:
                raise OSError(slot.label)

        return failing

    with pytest.MonkeyPatch.context() as patcher:
        for cls in (AttributeSlot, ItemSlot, PytreeSlot):
            patcher.setattr(cls, name, wrap(getattr(cls, name)))
        yield labels


@pytest.mark.parametrize("late", [False, True])
def test_a_failure_at_every_write(before: Any, late: bool) -> None:
    for number in range(1, sum(map(len, places().values())) + 1):
        with failing_at("write", number, late=late) as labels, pytest.raises(OSError, match=r"\w"), apply_patches():
            pytest.fail("The body must not run.")
        assert len(labels) == number
        assert before.changes() == [], labels[-1]


@pytest.mark.parametrize("late", [False, True])
def test_a_failure_at_every_restore(before: Any, late: bool) -> None:
    # A place that two specs write to is given back twice, or once if the first time fails.
    least = len({slot.key for pairs in places().values() for slot, _ in pairs})
    total = sum(map(len, places().values()))
    for number in range(1, total + 1):
        with failing_at("restore", number, late=late) as labels, apply_patches():
            pass
        assert least + 1 <= len(labels) <= total + 1
        assert before.changes() == [], labels[number - 1]


@pytest.mark.parametrize("spec_id", APPLYING)
def test_a_restore_that_fails_for_good(before: Any, monkeypatch: pytest.MonkeyPatch, spec_id: str) -> None:
    slot, saved = places()[spec_id][0]
    original = type(slot).restore

    def failing(self: Any, value: Any) -> None:
        if self.key == slot.key:
            raise OSError
        original(self, value)

    monkeypatch.setattr(type(slot), "restore", failing)
    with pytest.raises(RestoreError) as caught, apply_patches():
        pass
    # Two specs may write to one place, each by a name of its own for it.
    labels = {other.label for pairs in places().values() for other, _ in pairs if other.key == slot.key}
    assert slot.label in labels and {label for label, _ in caught.value.errors} <= labels
    replaced = {other.key for pairs in places().values() for other, held in pairs if other.read() != held}
    assert replaced == {slot.key}
    original(slot, saved)
    ENGINE._stacks.clear()
    assert before.changes() == []


EVERY_MODEL = """
import importlib, logging, pkgutil, warnings
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
import transformers.models
count = 0
for package in pkgutil.iter_modules(transformers.models.__path__, "transformers.models."):
    name = f"{package.name}.modeling_{package.name.rpartition('.')[2]}"
    try:
        importlib.import_module(name)
        count += 1
    except ImportError:  # It has no such module, or wants what is not installed.
        pass
from exportcompat import apply_patches
from exportcompat.registry._scope import ENGINE
with apply_patches() as report:
    held = len(list(ENGINE.patches()))
print(count > 150, held > 150, report.drifted, list(ENGINE.patches()))
"""


def test_every_model_of_the_release_at_once() -> None:
    command = [sys.executable, "-c", EVERY_MODEL]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout.endswith("True True [] []\n"), found.stdout[-300:] + found.stderr[-1000:]


STEPS = st.tuples(st.booleans(), st.integers(0, 5), st.sets(st.sampled_from(APPLYING), min_size=1))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=12))
def test_any_sequence_of_scopes(before: Any, steps: list[tuple[bool, int, set[str]]]) -> None:
    scopes: list[tuple[Any, set[str]]] = []
    for is_entry, which, ids in steps:
        if is_entry or not scopes:
            scopes.append((apply_patches(include=ids), ids))
            scopes[-1][0].__enter__()
        else:
            scopes.pop(which % len(scopes))[0].__exit__(None, None, None)
        active = {slot.key for _, held in scopes for spec_id in held for slot, _ in places()[spec_id]}
        for spec_id in APPLYING:
            assert is_replaced(spec_id) == [slot.key in active for slot, _ in places()[spec_id]]
    for scope, _ in scopes:
        scope.__exit__(None, None, None)
    assert before.changes() == []
