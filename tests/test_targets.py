"""Targets are strings that are resolved late, without importing anything."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import pytest

from exportcompat import apply_patches
from exportcompat.registry import (
    AttributeMissingError,
    ClassMissingError,
    ModuleMissingError,
    Registry,
    SpecError,
    TargetError,
    parse_target,
)
from exportcompat.registry._targets import DecoratedTarget, PytreeTarget, is_ready

FORMS = [
    ("pkg:f", "AttributeTarget", "pkg", "f"),
    ("pkg.sub.mod:Class.method", "AttributeTarget", "pkg.sub.mod", "Class.method"),
    ("pkg.mod:Outer.Inner.method", "AttributeTarget", "pkg.mod", "Outer.Inner.method"),
    ("pkg.mod:TABLE[key]", "ItemTarget", "pkg.mod", "TABLE"),
    ("pkg.mod:Class.TABLE[a-b.c]", "ItemTarget", "pkg.mod", "Class.TABLE"),
    ("pytree(pkg.mod:Class)", "PytreeTarget", "pkg.mod", "Class"),
    ("decorated(pkg.mod:decorator)", "DecoratedTarget", "pkg.mod", "decorator"),
    ("imported(pkg.mod:function)", "ImportedTarget", "pkg.mod", "function"),
    ("methods_using(pkg:name)", "UsingTarget", "pkg", "name"),
]


@pytest.mark.parametrize(("text", "form", "module", "name"), FORMS)
def test_forms(text: str, form: str, module: str, name: str) -> None:
    target = parse_target(text, "fake-spec")
    assert (type(target).__name__, target.module, target.name, target.text) == (form, module, name, text)
    assert target.is_pytree is (form == "PytreeTarget")


@pytest.mark.parametrize(
    "text",
    ["", "pkg", "pkg.mod", "pkg:", ":f", "pkg:f()", "pkg:T[]", "pkg:T[a][b]", "pkg:1f", "pytree(pkg)", "node(pkg:C)",
     "decorated(pkg:C.method)", "methods_using(pkg.mod:name)", "methods_using(name)", " pkg:f", "pkg:f\n"],
)  # fmt: skip
def test_no_known_form(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_target(text, "fake-spec")
    assert str(caught.value).startswith(f"spec 'fake-spec': target {text!r} has no known form; write 'pkg.mod:Class")


RESOLVED = [
    ("fakepkg:f", "fakepkg", "f"),
    ("fakepkg:Thing.method", "Thing", "method"),
    ("fakepkg:Thing.greet", "Thing", "greet"),
]


@pytest.mark.parametrize(("text", "owner", "name"), RESOLVED)
def test_attribute(fakepkg: ModuleType, text: str, owner: str, name: str) -> None:
    (slot,) = parse_target(text, "fake-spec").slots([])
    place = fakepkg if owner == "fakepkg" else getattr(fakepkg, owner)
    assert slot.owner is place
    assert slot.key == (id(place), name)
    assert slot.label == text


@pytest.mark.parametrize("name", ["TABLE", "LEVELS"])
def test_item(fakepkg: ModuleType, name: str) -> None:
    (slot,) = parse_target(f"fakepkg:{name}[item]", "fake-spec").slots([])
    assert slot.original()[0] is fakepkg.f
    assert slot.owner is None


MISSING = [
    ("fakepkg:Nothing.method", ClassMissingError, "fakepkg has no 'Nothing' (looking for the owner)"),
    ("fakepkg:Thing.Inner.method", ClassMissingError, "fakepkg.Thing has no 'Inner' (looking for the owner)"),
    ("fakepkg:NUMBER.real", ClassMissingError, "fakepkg.NUMBER is a int: neither a class nor a module"),
    ("fakepkg:NOTHING[item]", ClassMissingError, "fakepkg has no 'NOTHING' (looking for the owner)"),
    ("fakepkg:NUMBER[item]", ClassMissingError, "NUMBER is a int and not a mapping"),
    ("fakepkg:h", AttributeMissingError, "fakepkg has no attribute 'h'"),
    ("fakepkg:Thing.h", AttributeMissingError, "fakepkg.Thing has no attribute 'h'"),
    ("fakepkg:TABLE[nothing]", AttributeMissingError, "TABLE has no item 'nothing'"),
    ("fakepkg:LEVELS[nothing]", AttributeMissingError, "LEVELS has no item 'nothing'"),
    ("decorated(fakepkg:nothing)", AttributeMissingError, "fakepkg has no decorator 'nothing'"),
    ("decorated(fakepkg:Thing)", AttributeMissingError, "fakepkg has no decorator 'Thing'"),
    ("imported(fakepkg:nothing)", AttributeMissingError, "fakepkg has no function 'nothing'"),
    ("imported(fakepkg:Thing)", AttributeMissingError, "fakepkg has no function 'Thing'"),
    ("pytree(fakepkg:Nothing)", ClassMissingError, "fakepkg has no 'Nothing'"),
]


@pytest.mark.usefixtures("fakepkg")
@pytest.mark.parametrize(("text", "error", "found"), MISSING)
def test_missing(text: str, error: type[TargetError], found: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target(text, "fake-spec").slots([])
    assert type(caught.value) is error
    message = str(caught.value)
    assert f"spec 'fake-spec': target {text!r} does not resolve: {found}" in message
    assert message.endswith("so the range or the target is wrong: exclude the id, and report it with your versions")


@pytest.mark.parametrize(
    "module", ["nosuchpkg", "nosuchpkg.mod", "json.nosuchmod", "json.decoder.deeper", "sys.deeper"]
)
def test_missing_module(module: str) -> None:
    with pytest.raises(ModuleMissingError, match=f"there is no module '{module}'"):
        parse_target(f"{module}:f", "fake-spec").require_module()


@pytest.fixture
def unloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module in a package, neither of which is loaded and both of which refuse to be."""
    package = tmp_path / "unloadedpkg"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "mod.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "unloadedpkg.mod"


def test_a_module_that_is_not_loaded_is_found_and_not_imported(unloaded: str) -> None:
    before = dict(sys.modules)
    target = parse_target(f"{unloaded}:f", "fake-spec")
    target.require_module()
    assert not target.is_loaded()
    assert sys.modules == before


def test_a_missing_module_is_looked_for_without_imports(unloaded: str) -> None:
    before = dict(sys.modules)
    with pytest.raises(ModuleMissingError):
        parse_target(f"{unloaded}.deeper:f", "fake-spec").require_module()
    assert sys.modules == before


def test_a_folder_without_init_is_looked_into_without_imports(unloaded: str, tmp_path: Path) -> None:
    (tmp_path / "unloadedpkg" / "libs").mkdir()
    (tmp_path / "unloadedpkg" / "libs" / "deep.py").write_text("raise RuntimeError('imported')")
    before = dict(sys.modules)
    parse_target("unloadedpkg.libs.deep:f", "fake-spec").require_module()
    with pytest.raises(ModuleMissingError):
        parse_target("unloadedpkg.libs.other:f", "fake-spec").require_module()
    assert sys.modules == before


def test_a_lazy_module_is_not_asked(make_module: Callable[..., ModuleType]) -> None:
    def load(name: str) -> Any:
        raise RuntimeError(f"imported {name}")

    make_module("fakepkg", __getattr__=load)
    for text in ("fakepkg:f", "fakepkg:Thing.method", "fakepkg:TABLE[item]", "decorated(fakepkg:decorator)"):
        with pytest.raises(TargetError):
            parse_target(text, "fake-spec").slots([])


def test_a_module_is_loaded_when_it_has_been_executed(make_module: Callable[..., ModuleType]) -> None:
    module = make_module("fakepkg")
    target = parse_target("fakepkg:f", "fake-spec")
    assert target.is_loaded()
    module.__spec__ = SimpleNamespace(_initializing=True)  # type: ignore[assignment]
    assert not target.is_loaded()
    assert not is_ready(None)


def test_a_finder_without_find_spec_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [object(), *sys.meta_path])
    parse_target("json.tool:main", "fake-spec").require_module()


@pytest.fixture
def decorated(make_module: Callable[..., ModuleType]) -> ModuleType:
    """Return a module with a decorator and, in another module, classes that use it."""

    def switched(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    def other(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    class Plain:
        @switched
        def forward(self) -> None: ...

        @other
        def backward(self) -> None: ...

        def sideways(self) -> None: ...

    class Chained:
        @other
        @switched
        @other
        def forward(self) -> None: ...

    class Elsewhere:
        @switched
        def forward(self) -> None: ...

    for cls in (Plain, Chained):
        cls.__module__ = "users"
    make_module("fakepkg", switched=switched)
    make_module("stranger", Plain=Plain)
    return make_module("users", switched=switched, Plain=Plain, Alias=Plain, Chained=Chained, Elsewhere=Elsewhere)


def test_decorated_finds_methods_through_chains_of_decorators(decorated: ModuleType) -> None:
    target = parse_target("decorated(fakepkg:switched)", "fake-spec")
    slots = target.slots(list(sys.modules.values()))
    assert [slot.label.rpartition(".")[0].rpartition(".")[2] for slot in slots] == ["Plain", "Chained"]
    assert [slot.owner for slot in slots] == [decorated.Plain, decorated.Chained]
    assert all(slot.takes.__code__.co_name == "wrapper" for slot in slots)


def test_decorated_looks_at_the_modules_that_it_is_given(decorated: ModuleType) -> None:
    target = parse_target("decorated(fakepkg:switched)", "fake-spec")
    assert target.slots([sys.modules["stranger"], sys.modules["fakepkg"]]) == []
    assert len(target.slots([decorated])) == 2


def test_sources(fakepkg: ModuleType, decorated: ModuleType) -> None:
    # The decorator's package is made last, and has the name of the other.
    assert isinstance(parse_target("decorated(fakepkg:switched)", "fake-spec"), DecoratedTarget)
    assert parse_target("decorated(fakepkg:switched)", "fake-spec").source() is decorated.switched
    assert parse_target("users:Plain.sideways", "fake-spec").source() is decorated.Plain.sideways
    node = parse_target("pytree(users:Plain)", "fake-spec")
    assert isinstance(node, PytreeTarget)
    assert node.source() is decorated.Plain.__init__


def test_imported_finds_a_function_in_the_modules_that_have_it(make_module: Callable[..., ModuleType]) -> None:
    def shared() -> str:
        return "shared"

    def other() -> str:
        return "other"

    make_module("fakepkg", shared=shared)
    user, stranger = make_module("fakepkg.user", shared=shared), make_module("fakepkg.stranger", shared=other)
    target = parse_target("imported(fakepkg:shared)", "fake-spec")
    assert [slot.owner for slot in target.slots(list(sys.modules.values()))] == [user]
    assert target.slots([stranger]) == []
    assert target.is_spread
    assert target.source() is shared


def test_imported_is_found_where_it_is_patched_already(make_module: Callable[..., ModuleType]) -> None:
    def shared() -> str:
        return "shared"

    @functools.wraps(shared)
    def patched() -> str:
        return "patched"

    make_module("fakepkg", shared=shared)
    user = make_module("fakepkg.user", shared=patched)
    slots = parse_target("imported(fakepkg:shared)", "fake-spec").slots(list(sys.modules.values()))
    assert [slot.owner for slot in slots] == [user]


@pytest.fixture
def methods_using(make_module: Callable[..., ModuleType]) -> ModuleType:
    """Return a module of a package whose classes mention a name in several ways, or do not."""

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    class Local:
        def forward(self) -> Any:
            wanted = 1
            return wanted + wanted

    class Attribute:
        @wrapped
        def forward(self) -> Any:
            return self.wanted  # type: ignore[attr-defined]

        def other(self) -> Any:
            return "wanted"

    class Heir(Local):
        pass

    for cls in (Local, Attribute, Heir):
        cls.__module__ = "fakepkg.users"
    make_module("fakepkg")
    make_module("fakepkgs.users", Local=Local)
    make_module("fakepkg_modules.remote", Local=Local)
    return make_module("fakepkg.users", Local=Local, Alias=Local, Attribute=Attribute, Heir=Heir)


def test_methods_using_finds_local_variables_and_attributes(methods_using: ModuleType) -> None:
    target = parse_target("methods_using(fakepkg:wanted)", "fake-spec")
    for _ in range(2):
        slots = target.slots(list(sys.modules.values()))
        assert [slot.owner for slot in slots] == [methods_using.Local, methods_using.Attribute]
    assert target.is_spread
    assert target.source() is None


def test_methods_using_covers_the_code_of_checkpoints(methods_using: ModuleType) -> None:
    remote = sys.modules["fakepkg_modules.remote"]
    remote.Local.__module__ = "fakepkg_modules.remote"
    slots = parse_target("methods_using(fakepkg:wanted)", "fake-spec").slots([remote, sys.modules["fakepkgs.users"]])
    assert [slot.label.partition(":")[0] for slot in slots] == ["fakepkg_modules.remote"]


def test_methods_using_sees_what_a_module_has_added_by_its_end(methods_using: ModuleType) -> None:
    target = parse_target("methods_using(fakepkg:wanted)", "fake-spec")
    added = methods_using.Attribute
    methods_using.__spec__ = SimpleNamespace(_initializing=True)  # type: ignore[assignment]
    del methods_using.Attribute
    assert len(target.slots([methods_using])) == 1
    methods_using.Attribute, methods_using.__spec__ = added, None  # type: ignore[attr-defined]
    assert len(target.slots([methods_using])) == 2


@pytest.mark.parametrize("exclude", [(), ("named",)])
def test_a_place_that_another_spec_names_is_left_to_it(
    fakepkg: ModuleType,
    make_module: Callable[..., ModuleType],
    make_spec: Callable[..., Any],
    exclude: tuple[str, ...],
) -> None:
    """Whether it is applied or not: what one scope may hold must not depend on another one around it."""
    functions = ("f", "g")
    methods = {name: FunctionType(method.__code__, globals()) for name in functions}
    users = type("Users", (), {"__module__": "fakepkg.users", **methods})
    make_module("fakepkg.users", Users=users)
    specs = [make_spec("methods_using(fakepkg:wanted)", id="spread"), make_spec("fakepkg.users:Users.f", id="named")]
    with apply_patches(registry=Registry(specs), exclude=exclude) as report:
        changed = [name for name in functions if getattr(users, name) is not methods[name]]
    assert changed == [name for name in functions if not exclude or name == "g"]
    assert sorted(report.applied) == sorted({"spread", "named"} - set(exclude))


@pytest.mark.parametrize("order", [("choosy", "other"), ("other", "choosy")])
def test_a_place_for_which_a_factory_returns_the_original_is_free(
    fakepkg: ModuleType,
    make_module: Callable[..., ModuleType],
    make_spec: Callable[..., Any],
    order: tuple[str, ...],
) -> None:
    class Users:
        def f(self) -> str:
            wanted = also = "f"
            return wanted + also

        def g(self) -> str:
            wanted = "g"
            return wanted + wanted

    Users.__module__ = "fakepkg.users"
    make_module("fakepkg.users", Users=Users)
    specs = {
        "choosy": make_spec("methods_using(fakepkg:wanted)", id="choosy", replacement="fakefactories:choosy"),
        "other": make_spec("methods_using(fakepkg:also)", id="other"),
    }
    with apply_patches(registry=Registry([specs[name] for name in order])) as report:
        results: list[Any] = [Users().f(), Users().g()]
    assert results == [("patched", "ff"), ("patched", "gg")]
    assert sorted(report.applied) == ["choosy", "other"]
    assert [len(uses) for uses in report.applied.values()] == [1, 1]


def method(self: Any, wanted: Any) -> Any:
    return wanted
