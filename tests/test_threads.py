"""Scopes of several threads overlap at random: nobody in a scope meets an original, and nothing is left."""

import random
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from exportcompat import apply_patches, plan
from exportcompat.registry import PatchingSpec, Registry
from exportcompat.registry._slots import AttributeSlot

MakeSpec = Callable[..., PatchingSpec]
THREADS = 8


@pytest.fixture(autouse=True)
def _switching_often() -> Iterator[None]:
    """Let Python change threads after 10 microseconds instead of 5 milliseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[random.Random], None]) -> None:
    """Call `work` in eight threads at once, and raise the first error of any."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def run(seed: int) -> None:
        try:
            barrier.wait()
            work(random.Random(seed))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_scopes_of_eight_threads(fakepkg: Any, make_spec: MakeSpec, snapshot: Any) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "function": lambda: fakepkg.f(1),
        "method": lambda: fakepkg.Thing().method(1),
        "inherited": lambda: fakepkg.Thing().greet(),
        "item": lambda: fakepkg.LEVELS["item"](1),
    }
    targets = ["fakepkg:f", "fakepkg:Thing.method", "fakepkg:Thing.greet", "fakepkg:LEVELS[item]"]
    specs = [make_spec(target, id=name) for target, name in zip(targets, calls, strict=True)]
    registry = Registry(specs)
    before = snapshot(fakepkg, fakepkg.Thing, fakepkg.Base, fakepkg.LEVELS.own, type(fakepkg.LEVELS).shared)

    def work(chance: random.Random) -> None:
        for _ in range(1000):
            ids = chance.sample(list(calls), chance.randint(1, len(calls)))
            with apply_patches(registry=registry, include=ids) as report:
                for name in ids:
                    kind, _ = calls[name]()
                    assert kind == "patched", name
                assert list(report.applied) == [name for name in calls if name in ids]

    in_threads(work)
    assert before.changes() == []


def test_one_scope_object_of_eight_threads(fakepkg: Any, make_spec: MakeSpec, snapshot: Any) -> None:
    before = snapshot(fakepkg)
    scope = apply_patches(registry=Registry([make_spec()]))

    def work(chance: random.Random) -> None:
        for _ in range(1000):
            with scope:
                assert fakepkg.f(1) == ("patched", 1)

    in_threads(work)
    assert before.changes() == []


def test_threads_that_overlap_without_nesting(fakepkg: Any, make_spec: MakeSpec, snapshot: Any) -> None:
    before = snapshot(fakepkg)
    registry = Registry([make_spec("fakepkg:f", id="one"), make_spec("fakepkg:g", id="two")])

    def work(chance: random.Random) -> None:
        scopes: list[Any] = []
        for _ in range(1000):
            if scopes and chance.random() < 0.5:
                scopes.pop(chance.randrange(len(scopes))).__exit__(None, None, None)
            else:
                scopes.append(apply_patches(registry=registry))
                scopes[-1].__enter__()
            if scopes:
                assert (fakepkg.f(1)[0], fakepkg.g(1)[0]) == ("patched", "patched")
        for scope in scopes:
            scope.__exit__(None, None, None)

    in_threads(work)
    assert before.changes() == []


def test_a_thread_waits_for_a_write_that_another_has_begun(
    fakepkg: Any, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, entered = threading.Event(), threading.Event(), threading.Event()
    registry, original, seen = Registry([make_spec()]), AttributeSlot.write, list[Any]()

    def write(slot: AttributeSlot, value: Any) -> None:
        begun.set()
        go_on.wait(60)
        original(slot, value)

    def enter() -> None:
        with apply_patches(registry=registry):
            entered.set()
            seen.append(fakepkg.f(1))

    monkeypatch.setattr(AttributeSlot, "write", write)
    threads = [threading.Thread(target=enter, daemon=True) for _ in range(2)]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    assert not entered.wait(0.2)
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert seen == [("patched", 1)] * 2


@pytest.mark.filterwarnings("ignore::exportcompat.registry.DriftWarning")
def test_the_default_specs_in_eight_threads(snapshot: Any) -> None:
    import torch.fx._pytree
    import torch.utils._pytree
    from torch.nn import functional
    from transformers import cache_utils

    node, kept = torch.utils._pytree.SUPPORTED_NODES, [cache_utils.DynamicLayer, cache_utils.DynamicSlidingWindowLayer]
    before = snapshot(functional, *kept, node, torch.fx._pytree.SUPPORTED_NODES)
    ids = sorted({item.spec.id for item in plan() if item.applies})

    def work(chance: random.Random) -> None:
        for _ in range(40):
            with apply_patches(include=chance.sample(ids, chance.randint(1, len(ids)))) as report:
                for spec_id in report.applied:
                    if spec_id == "dynamic-cache-pytree":
                        assert node[cache_utils.DynamicCache].flatten_fn.__module__.startswith("exportcompat.")
                    if spec_id == "sliding-layer-full-past":
                        assert hasattr(cache_utils.DynamicSlidingWindowLayer.update, "__wrapped__")

    in_threads(work)
    assert before.changes() == []


def test_threads_that_import_in_one_scope(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, fakepkg: ModuleType, make_spec: MakeSpec
) -> None:
    names = [f"threadmod{index}" for index in range(20)]
    for name in names:
        (tmp_path / f"{name}.py").write_text("def f(x):\n    return x\n")
        monkeypatch.setitem(sys.modules, name, fakepkg)
        del sys.modules[name]
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[Any] = []

    def work(chance: random.Random) -> None:
        seen.extend([__import__(name).f(1) for name in chance.sample(names, len(names))])

    with apply_patches(registry=Registry([make_spec(*[f"{name}:f" for name in names])])) as report:
        in_threads(work)
    assert seen == [("patched", 1)] * len(names) * THREADS
    assert len(report.applied["fake-spec"]) == len(names)
    assert report.pending == {}
    assert [sys.modules[name].f(1) for name in names] == [1] * len(names)
