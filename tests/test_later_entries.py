"""A later entry finds what the first one has found without looking for it, and sees every change in between."""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from exportcompat import apply_patches
from exportcompat.registry import PatchingSpec, Registry
from exportcompat.registry._scope import _Entry

MakeSpec = Callable[..., PatchingSpec]
MakeModule = Callable[..., ModuleType]


def loud(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function."""

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@pytest.fixture
def user(fakepkg: Any, make_module: MakeModule) -> Any:
    """Return a module that has imported a function and a decorator of `fakepkg` by name, and has classes."""

    class Decorated:
        @loud
        def shout(self) -> str:
            return "shout"

        def whisper(self) -> str:
            return "whisper"

    class Mentioning:
        def f(self) -> str:
            wanted = "f"
            return wanted + wanted

    for cls in (Decorated, Mentioning):
        cls.__module__ = "fakepkg.user"
    fakepkg.loud = loud
    return make_module("fakepkg.user", f=fakepkg.f, loud=loud, Decorated=Decorated, Mentioning=Mentioning)


@pytest.fixture
def registry(user: Any, make_spec: MakeSpec) -> Registry:
    """Return a registry with every form of target."""
    targets = (
        "fakepkg:g",
        "fakepkg:Thing.method",
        "fakepkg:Thing.greet",
        "fakepkg:LEVELS[item]",
        "imported(fakepkg:f)",
        "decorated(fakepkg:loud)",
        "methods_using(fakepkg:wanted)",
    )
    return Registry([make_spec(target, id=f"spec-{index}") for index, target in enumerate(targets)])


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that gets one more item whenever an entry looks for its places."""
    found: list[Any] = []
    resolve = _Entry._resolve

    def noted(self: _Entry, *args: Any) -> None:
        found.append(self)
        resolve(self, *args)

    monkeypatch.setattr(_Entry, "_resolve", noted)
    return found


def results(pkg: Any, user: Any) -> list[Any]:
    """Return what every patched place gives."""
    thing, levels = pkg.Thing(), pkg.LEVELS
    return [
        pkg.g(1),
        thing.method(1),
        thing.greet(),
        levels["item"](1),
        user.f(1),
        user.Decorated().shout(),
        user.Decorated().whisper(),
        user.Mentioning().f(),
    ]


ORIGINAL: list[Any] = [-1, 1, "hello", 1, 1, "shout", "whisper", "ff"]
PATCHED: list[Any] = [item if item == "whisper" else ("patched", item) for item in ORIGINAL]


def test_nothing_is_looked_for_while_nothing_changes(
    fakepkg: Any, user: Any, registry: Registry, resolved: list[Any]
) -> None:
    reports = []
    for _ in range(3):
        with apply_patches(registry=registry) as report:
            assert results(fakepkg, user) == PATCHED
            with apply_patches(registry=registry) as inner:
                assert results(fakepkg, user) == PATCHED
        assert results(fakepkg, user) == ORIGINAL
        reports += [report.to_dict(), inner.to_dict()]
    assert len(resolved) == 1
    assert reports[2] == reports[4] == reports[0]
    assert reports[1] == reports[3] == reports[5]
    assert list(report.hits.values()) == [2, 2, 2, 2, 2, 2, 2]


def test_what_the_factories_import_is_no_change(
    fakepkg: Any, user: Any, make_module: MakeModule, make_spec: MakeSpec, resolved: list[Any]
) -> None:
    def importing(original: Any) -> Any:
        make_module("fakehelper")
        return lambda *args, **kwargs: ("patched", original(*args, **kwargs))

    def spreading(original: Any) -> Any:
        if "fakeuser" not in sys.modules:
            make_module("fakeuser", f=fakepkg.f)
        return lambda *args, **kwargs: ("patched", original(*args, **kwargs))

    make_module("importers", importing=importing, spreading=spreading)
    for name, count in (("importing", 1), ("spreading", 2)):
        registry = Registry([make_spec("imported(fakepkg:f)", replacement=f"importers:{name}")])
        resolved.clear()
        for _ in range(3):
            with apply_patches(registry=registry):
                assert user.f(1) == ("patched", 1)
        assert len(resolved) == count, name
    with apply_patches(registry=registry):
        assert sys.modules["fakeuser"].f(1) == ("patched", 1)


def test_what_was_asked_for_is_part_of_what_is_known(fakepkg: Any, user: Any, registry: Registry) -> None:
    for _ in range(2):
        with apply_patches(registry=registry):
            assert fakepkg.g(1) == ("patched", -1)
        with apply_patches(registry=registry, exclude="spec-0"):
            assert fakepkg.g(1) == -1
        with apply_patches(registry=registry, include="spec-1") as report:
            assert (fakepkg.g(1), fakepkg.Thing().method(1)) == (-1, ("patched", 1))
            with apply_patches(registry=registry):
                assert results(fakepkg, user) == PATCHED
        assert list(report.applied) == ["spec-1"]


def other(x: int) -> str:
    return "other"


def rebind_function(pkg: Any, user: Any) -> None:
    pkg.g = other


def rebind_class(pkg: Any, user: Any) -> None:
    pkg.Thing = type("Thing", (pkg.Thing,), {"method": lambda self, x: "other"})


def rebind_method(pkg: Any, user: Any) -> None:
    pkg.Thing.method = lambda self, x: "other"


def rebind_inherited(pkg: Any, user: Any) -> None:
    pkg.Base.greet = lambda self: "other"


def rebind_item(pkg: Any, user: Any) -> None:
    pkg.LEVELS.shared["item"] = other


def put_item_in_front(pkg: Any, user: Any) -> None:
    pkg.LEVELS.own["item"] = other


def rebind_imported(pkg: Any, user: Any) -> None:
    user.f = other


def rebind_decorated(pkg: Any, user: Any) -> None:
    user.Decorated.shout = loud(lambda self: "other")


def decorate_another(pkg: Any, user: Any) -> None:
    user.Decorated.whisper = loud(lambda self: "other")


def replace_class_with_methods(pkg: Any, user: Any) -> None:
    def f(self: Any) -> str:
        wanted = "other"
        return wanted[:]

    user.Mentioning = type("Mentioning", (), {"f": f, "__module__": "fakepkg.user"})


def replace_module(pkg: Any, user: Any) -> None:
    made = ModuleType("fakepkg.user")
    vars(made).update({**vars(user), "f": other})
    sys.modules["fakepkg.user"] = made


CHANGES: list[tuple[Callable[[Any, Any], None], dict[int, Any]]] = [
    (rebind_function, {0: ("patched", "other")}),
    (rebind_class, {1: ("patched", "other")}),
    (rebind_method, {1: ("patched", "other")}),
    (rebind_inherited, {2: ("patched", "other")}),
    (rebind_item, {3: ("patched", "other")}),
    (put_item_in_front, {3: ("patched", "other")}),
    (rebind_imported, {4: "other"}),
    (rebind_decorated, {5: ("patched", "other")}),
    (decorate_another, {6: ("patched", "other")}),
    (replace_class_with_methods, {7: ("patched", "other")}),
    (replace_module, {4: "other"}),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES, ids=lambda item: getattr(item, "__name__", ""))
def test_what_is_bound_anew_in_between(
    fakepkg: Any,
    user: Any,
    registry: Registry,
    snapshot: Any,
    change: Callable[[Any, Any], None],
    expected: dict[int, Any],
) -> None:
    for _ in range(2):
        with apply_patches(registry=registry):
            assert results(fakepkg, user) == PATCHED
    change(fakepkg, user)
    user = sys.modules["fakepkg.user"]
    levels = fakepkg.LEVELS
    places = [fakepkg, fakepkg.Base, fakepkg.Thing, levels.own, levels.shared, user, user.Decorated, user.Mentioning]
    before = snapshot(*places)
    for _ in range(2):
        with apply_patches(registry=registry):
            assert results(fakepkg, user) == [expected.get(index, item) for index, item in enumerate(PATCHED)]
        assert before.changes() == []


def test_a_name_that_a_module_gets_in_between(
    fakepkg: Any, registry: Registry, make_module: MakeModule, snapshot: Any, resolved: list[Any]
) -> None:
    taker: Any = make_module("taker")
    for number in range(3):
        with apply_patches(registry=registry):
            pass
        setattr(taker, f"name{number}", None)
    assert len(resolved) == 1
    taker.f = fakepkg.f
    before = snapshot(taker)
    for _ in range(2):
        with apply_patches(registry=registry):
            assert taker.f(1) == ("patched", 1)
        assert (taker.f(1), before.changes()) == (1, [])


def test_a_module_that_goes_and_one_that_comes(
    fakepkg: Any, user: Any, registry: Registry, make_module: MakeModule, snapshot: Any
) -> None:
    for name in ("taker", "taker", "other"):
        taker: Any = make_module(name, f=fakepkg.f)
        before = snapshot(taker)
        for _ in range(2):
            with apply_patches(registry=registry):
                assert taker.f(1) == ("patched", 1)
                assert results(fakepkg, user) == PATCHED
            assert before.changes() == []
        del sys.modules[name]
        with apply_patches(registry=registry):
            assert taker.f(1) == 1


def test_a_spec_that_is_added_in_between(fakepkg: Any, registry: Registry, make_spec: MakeSpec) -> None:
    for _ in range(2):
        with apply_patches(registry=registry):
            assert fakepkg.f(1) == 1
    registry.add(make_spec("fakepkg:f", id="added"))
    with apply_patches(registry=registry) as report:
        assert fakepkg.f(1) == ("patched", 1)
    assert "added" in report.applied


def test_another_version_in_between(fakepkg: Any, registry: Registry) -> None:
    for _ in range(2):
        with apply_patches(registry=registry) as report:
            pass
        assert report.applied
    fakepkg.__version__ = "0.9"
    with apply_patches(registry=registry) as report:
        assert fakepkg.g(1) == -1
    assert (report.applied, report.versions["fakepkg"]) == ({}, "0.9")


def test_a_spec_that_was_left_out_is_looked_at_again(fakepkg: Any, make_spec: MakeSpec) -> None:
    registry = Registry([make_spec("fakepkg:later", id="later")])
    for _ in range(2):
        with apply_patches(registry=registry, on_drift="skip") as report:
            assert list(report.skipped) == ["later"]
    fakepkg.later = other
    with apply_patches(registry=registry) as report:
        assert fakepkg.later(1) == ("patched", "other")


def test_objects_in_place_of_modules_that_cannot_be_compared(
    fakepkg: Any, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("no comparison")

        __hash__ = None  # type: ignore[assignment]

    for _ in range(2):
        monkeypatch.setitem(sys.modules, "odd", Odd())
        with apply_patches(registry=registry):
            assert fakepkg.g(1) == ("patched", -1)
