"""What is not loaded when a scope begins is patched when it is imported inside it."""

import importlib
import importlib.util
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from exportcompat import apply_patches
from exportcompat.registry import AttributeMissingError, ConflictError, DriftWarning, PatchingSpec, Registry
from exportcompat.registry._scope import WATCH

MakeSpec = Callable[..., PatchingSpec]
Write = Callable[..., None]

FUNCTION = "def f(x):\n    return x\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fakepkg: ModuleType) -> Iterator[Write]:
    """Return a function that writes modules; those that a test imports are removed from `sys.modules`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)

    def written(**texts: str) -> None:
        for name, text in texts.items():
            (tmp_path / f"{name}.py").parent.mkdir(exist_ok=True)
            (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()

    yield written
    for name in set(sys.modules) - before:
        del sys.modules[name]


def load(name: str) -> Any:
    """Import a module."""
    return importlib.import_module(name)


def is_ordinary(module: ModuleType) -> bool:
    """Say whether the module has the loader that it has without a scope."""
    spec = module.__spec__
    return spec is not None and type(spec.loader) is SourceFileLoader and module.__loader__ is spec.loader


def test_a_module_that_is_imported_inside(write: Write, make_spec: MakeSpec) -> None:
    write(latemod=FUNCTION)
    before = list(sys.meta_path)
    with apply_patches(registry=Registry([make_spec("latemod:f")])) as report:
        assert (report.pending, report.applied) == ({"fake-spec": ["latemod:f"]}, {})
        module = load("latemod")
        assert module.f(1) == ("patched", 1)
        assert is_ordinary(module)
        assert (report.pending, report.hits) == ({}, {"fake-spec": 1})
        assert report.skipped == {}
    assert module.f(1) == 1
    assert not hasattr(module.f, "__wrapped__")
    assert is_ordinary(module)
    assert sys.meta_path == before


def test_a_module_that_is_not_imported(write: Write, make_spec: MakeSpec) -> None:
    write(latemod=FUNCTION)
    with apply_patches(registry=Registry([make_spec("latemod:f")])) as report:
        pass
    assert "latemod" not in sys.modules
    assert report.to_dict()["pending"] == {"fake-spec": ["latemod:f"]}
    assert load("latemod").f(1) == 1


def test_a_spec_of_two_modules(write: Write, make_spec: MakeSpec, fakepkg: ModuleType) -> None:
    write(latemod=FUNCTION, latermod=FUNCTION)
    with apply_patches(registry=Registry([make_spec("fakepkg:f", "latemod:f", "latermod:f")])) as report:
        assert fakepkg.f(1) == ("patched", 1)
        assert load("latemod").f(1) == ("patched", 1)
        assert report.pending == {"fake-spec": ["latermod:f"]}
        assert [use.target for use in report.applied["fake-spec"]] == ["fakepkg:f", "latemod:f"]
    assert load("latermod").f(1) == load("latemod").f(1) == fakepkg.f(1) == 1


def test_two_scopes_are_open(write: Write, make_spec: MakeSpec) -> None:
    write(latemod=FUNCTION)
    registry = Registry([make_spec("latemod:f")])
    first, second = apply_patches(registry=registry), apply_patches(registry=registry)
    reports = [first.__enter__(), second.__enter__()]
    module = load("latemod")
    assert module.f(1) == ("patched", 1)
    assert [report.hits for report in reports] == [{"fake-spec": 1}, {"fake-spec": 1}]
    first.__exit__(None, None, None)
    assert module.f(1) == ("patched", 1)
    second.__exit__(None, None, None)
    assert module.f(1) == 1
    assert not hasattr(module.f, "__wrapped__")


def test_a_replacement_that_is_imported_by_name_is_the_original_afterwards(
    write: Write, make_spec: MakeSpec, fakepkg: ModuleType
) -> None:
    original = fakepkg.f
    write(taker="from fakepkg import f\nfrom fakepkg import f as other\n")
    with apply_patches(registry=Registry([make_spec("fakepkg:f")])):
        taker = load("taker")
        assert taker.f(1) == taker.other(1) == ("patched", 1)
        assert taker.f is fakepkg.f
    assert taker.f is taker.other is fakepkg.f is original


def test_a_name_that_is_imported_inside_two_scopes_does_not_end_a_third(
    write: Write, make_spec: MakeSpec, fakepkg: ModuleType
) -> None:
    write(taker="from fakepkg import f\n")
    registry, original = Registry([make_spec("fakepkg:f")]), fakepkg.f
    first = apply_patches(registry=registry)
    first.__enter__()
    taker = load("taker")
    with apply_patches(registry=registry):
        first.__exit__(None, None, None)
        assert fakepkg.f(1) == ("patched", 1)
        assert taker.f is original
    assert fakepkg.f is original


def test_an_alias_that_is_a_target_itself_gets_the_original_back(
    write: Write, make_spec: MakeSpec, fakepkg: ModuleType
) -> None:
    original = fakepkg.f
    write(taker="from fakepkg import f\n")
    with apply_patches(registry=Registry([make_spec("fakepkg:f", "taker:f")])):
        taker = load("taker")
        assert taker.f(1) == ("patched", 1)
    assert taker.f is fakepkg.f is original


def test_an_alias_that_is_the_target_of_another_spec(write: Write, make_spec: MakeSpec, fakepkg: ModuleType) -> None:
    original = fakepkg.f
    write(taker="from fakepkg import f\n")
    one, two = make_spec("fakepkg:f", id="one"), make_spec("taker:f", id="two", replacement="fakefactories:loud")
    with apply_patches(registry=Registry([one])), apply_patches(registry=Registry([two])):
        taker = load("taker")
        assert (taker.f(1), fakepkg.f(1)) == ("1!", ("patched", 1))
    assert taker.f is fakepkg.f is original


def test_an_import_error_inside(write: Write, make_spec: MakeSpec, fakepkg: ModuleType) -> None:
    write(latemod=FUNCTION + "from fakepkg import f as g\nraise RuntimeError('from the module')\n")
    before = list(sys.meta_path)
    with apply_patches(registry=Registry([make_spec("latemod:f"), make_spec("fakepkg:f", id="other")])) as report:
        with pytest.raises(RuntimeError, match="from the module"):
            load("latemod")
        assert "latemod" not in sys.modules
        write(latemod=FUNCTION + "\n# Mended.\n")
        assert load("latemod").f(1) == ("patched", 1)
        assert report.pending == {}
    assert load("latemod").f(1) == 1
    assert sys.meta_path == before


def test_a_module_that_is_imported_anew(write: Write, make_spec: MakeSpec) -> None:
    write(latemod=FUNCTION)
    with apply_patches(registry=Registry([make_spec("latemod:f")])):
        first = load("latemod")
        del sys.modules["latemod"]
        second = load("latemod")
        assert first is not second
        assert first.f(1) == second.f(1) == ("patched", 1)
    assert first.f(1) == second.f(1) == 1


def test_a_missing_attribute_is_found_late_and_the_whole_spec_is_withdrawn(
    write: Write, make_spec: MakeSpec, fakepkg: ModuleType
) -> None:
    write(latemod=FUNCTION)
    original = fakepkg.f
    with apply_patches(registry=Registry([make_spec("fakepkg:f", "latemod:f", "latemod:g")])) as report:
        assert fakepkg.f(1) == ("patched", 1)
        with pytest.warns(DriftWarning, match="latemod has no attribute 'g'.*the spec was left out"):
            module = load("latemod")
        assert fakepkg.f is original
        assert module.f(1) == 1
        assert "latemod has no attribute 'g'" in report.skipped["fake-spec"]
        assert (report.applied, report.pending) == ({}, {})
    assert fakepkg.f is original


@pytest.mark.parametrize("how", [{"include": "fake-spec"}, {"on_drift": "error"}])
def test_a_missing_attribute_is_an_error_of_the_import(write: Write, make_spec: MakeSpec, how: dict[str, Any]) -> None:
    write(latemod=FUNCTION)
    with apply_patches(registry=Registry([make_spec("latemod:f", "latemod:g")]), **how):
        for _ in range(2):
            with pytest.raises(AttributeMissingError, match="latemod has no attribute 'g'"):
                load("latemod")
            assert "latemod" not in sys.modules
    assert load("latemod").f(1) == 1


def test_a_warning_that_is_an_error_is_one_of_the_import(write: Write, make_spec: MakeSpec) -> None:
    write(latemod=FUNCTION)
    with apply_patches(registry=Registry([make_spec("latemod:g")])), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DriftWarning):
            load("latemod")
    assert load("latemod").f(1) == 1


DECORATOR = "def deco(function):\n    def wrapper(self):\n        return function(self)\n    return wrapper\n"
USER = "from decomod import deco\nclass User:\n    @deco\n    def forward(self):\n        return 1\n"


@pytest.mark.parametrize("loaded", [(), ("decomod",), ("decomod", "usermod")])
def test_users_of_a_decorator(write: Write, make_spec: MakeSpec, loaded: tuple[str, ...]) -> None:
    write(decomod=DECORATOR, usermod=USER, latermod=USER)
    for name in loaded:
        load(name)
    with apply_patches(registry=Registry([make_spec("decorated(decomod:deco)")])) as report:
        users = [load("usermod"), load("latermod")]
        assert [user.User().forward() for user in users] == [("patched", 1)] * 2
        targets = [use.target for use in report.applied["fake-spec"]]
        assert targets == ["usermod:User.forward", "latermod:User.forward"]
        assert (report.skipped, report.pending) == ({}, {})
    assert [user.User().forward() for user in users] == [1, 1]
    assert all(is_ordinary(user) for user in users)


def test_methods_that_mention_a_name(write: Write, make_spec: MakeSpec) -> None:
    text = "class User:\n    def forward(self):\n        wanted = 1\n        return wanted\n"
    write(**{"mentionpkg/__init__": "", "mentionpkg/early": text, "mentionpkg/late": text})
    load("mentionpkg.early")
    with apply_patches(registry=Registry([make_spec("methods_using(mentionpkg:wanted)")])) as report:
        users = [load("mentionpkg.early"), load("mentionpkg.late")]
        assert [user.User().forward() for user in users] == [("patched", 1)] * 2
        assert (report.skipped, report.pending) == ({}, {})
    assert [user.User().forward() for user in users] == [1, 1]


@pytest.mark.parametrize("entered", [0, 2], ids=["first-entry", "later-entry"])
@pytest.mark.parametrize("loaded", [(), ("mentionpkg.early",)])
def test_a_place_that_a_spec_names_is_left_to_it(
    write: Write, make_spec: MakeSpec, loaded: tuple[str, ...], entered: int
) -> None:
    text = "class User:\n    def forward(self):\n        wanted = 1\n        return wanted\n"
    write(**{"mentionpkg/__init__": "", "mentionpkg/early": text, "mentionpkg/late": text})
    for name in loaded:
        load(name)
    # The one that looks for a name comes first, and leaves the place all the same.
    spread = make_spec("methods_using(mentionpkg:wanted)", id="a-spread")
    named = make_spec("mentionpkg.early:User.forward", id="b-named")
    registry = Registry([spread, named])
    # A later entry repeats what an earlier one has found, and looks for nothing until a module is imported.
    for _ in range(entered):
        with apply_patches(registry=registry):
            pass
    with apply_patches(registry=registry) as report:
        users = [load("mentionpkg.early"), load("mentionpkg.late")]
        assert [user.User().forward() for user in users] == [("patched", 1)] * 2
        held = {spec_id: [use.target for use in uses] for spec_id, uses in report.applied.items()}
        assert held == {"a-spread": ["mentionpkg.late:User.forward"], "b-named": ["mentionpkg.early:User.forward"]}
    assert [user.User().forward() for user in users] == [1, 1]


SHARED = "class User:\n    def forward(self):\n        first = second = 1\n        return first\n"


def sharing(make_spec: MakeSpec, **fields: Any) -> Registry:
    """Return two specs that both find `User.forward`, by a word each; `fields` are those of the second."""
    first = make_spec("methods_using(sharedpkg:first)", id="a-first")
    return Registry([first, make_spec("methods_using(sharedpkg:second)", id="b-second", **fields)])


@pytest.mark.parametrize("loaded", [(), ("sharedpkg.user",)])
def test_specs_that_find_one_place_by_words_share_it(
    write: Write, make_spec: MakeSpec, loaded: tuple[str, ...]
) -> None:
    write(**{"sharedpkg/__init__": "", "sharedpkg/user": SHARED})
    for name in loaded:
        load(name)
    with apply_patches(registry=sharing(make_spec)) as report:
        user = load("sharedpkg.user").User
        assert user().forward() == ("patched", ("patched", 1))
        assert [report.applied[name][0].hits for name in ("a-first", "b-second")] == [1, 1]
    assert user().forward() == 1
    assert not hasattr(user.forward, "__wrapped__")


@pytest.mark.parametrize("only", ["a-first", "b-second"])
def test_scopes_that_share_a_place_may_end_in_any_order(write: Write, make_spec: MakeSpec, only: str) -> None:
    write(**{"sharedpkg/__init__": "", "sharedpkg/user": SHARED})
    user, registry = load("sharedpkg.user").User, sharing(make_spec)
    original = vars(user)["forward"]
    one, both = apply_patches(registry=registry, include=[only]), apply_patches(registry=registry)
    for first, second, between in [(one, both, 2), (both, one, 1)]:
        with ExitStack() as outer:
            outer.enter_context(one)
            with ExitStack() as inner:
                inner.enter_context(both)
                assert user().forward() == ("patched", ("patched", 1))
                left = {one: outer, both: inner}
                left[first].close()
                assert user().forward() == [1, ("patched", 1), ("patched", ("patched", 1))][between]
                left[second].close()
                assert vars(user)["forward"] is original


def test_a_replacement_that_passes_nothing_on_shares_no_place(write: Write, make_spec: MakeSpec) -> None:
    write(**{"sharedpkg/__init__": "", "sharedpkg/user": SHARED})
    user = load("sharedpkg.user").User
    with pytest.raises(ConflictError, match="is already replaced by spec 'a-first'"):
        apply_patches(registry=sharing(make_spec, kind="replace")).__enter__()
    assert user().forward() == 1


def test_a_module_that_another_thread_imports(write: Write, make_spec: MakeSpec) -> None:
    write(latemod=FUNCTION)
    with apply_patches(registry=Registry([make_spec("latemod:f")])):
        thread = threading.Thread(target=load, args=("latemod",))
        thread.start()
        thread.join()
        assert load("latemod").f(1) == ("patched", 1)
    assert load("latemod").f(1) == 1


def test_a_scope_does_not_wait_for_an_import_that_waits_for_it(
    write: Write, make_spec: MakeSpec, make_module: Callable[..., ModuleType], fakepkg: ModuleType
) -> None:
    """The factory imports a module while another thread has begun to import it and reports to the same scope."""
    begun, started = threading.Event(), threading.Event()
    make_module("events", begun=begun, started=started)
    write(slowmod="import events\nevents.started.set()\nevents.begun.wait(60)\nimport innermod\n", innermod="")

    def factory(original: Any) -> Any:
        thread.start()
        started.wait(60)
        begun.set()
        load("slowmod")
        return lambda *args, **kwargs: ("patched", original(*args, **kwargs))

    make_module("slowfactories", factory=factory)
    thread = threading.Thread(target=load, args=("slowmod",), daemon=True)

    def enter() -> None:
        with apply_patches(registry=Registry([make_spec(replacement="slowfactories:factory")])):
            done.append(fakepkg.f(1))

    done: list[Any] = []
    entering = threading.Thread(target=enter, daemon=True)
    entering.start()
    entering.join(60)
    assert done == [("patched", 1)]


@pytest.mark.parametrize("target", ["latemod:f", "latemod:gone"])
def test_an_import_that_ends_after_the_scope_does_nothing(write: Write, make_spec: MakeSpec, target: str) -> None:
    write(latemod=FUNCTION)
    scope = apply_patches(registry=Registry([make_spec(target)]))
    scope.__enter__()
    entry = scope._open[-1]
    scope.__exit__(None, None, None)
    module = load("latemod")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entry.imported(module)
    assert module.f(1) == 1


def test_a_module_that_is_met_twice_is_reported_once(write: Write, make_spec: MakeSpec) -> None:
    write(latemod=FUNCTION)
    scope = apply_patches(registry=Registry([make_spec("latemod:f")]))
    with scope as report:
        module = load("latemod")
        scope._open[-1].imported(module)
        assert [use.target for use in report.applied["fake-spec"]] == ["latemod:f"]
    assert module.f(1) == 1


def test_a_spec_that_was_left_out_at_entry_waits_for_nothing(write: Write, make_spec: MakeSpec) -> None:
    write(latemod=FUNCTION)
    registry = Registry([make_spec("latemod:f", "fakepkg:gone")])
    with (
        pytest.warns(DriftWarning, match="fakepkg has no attribute 'gone'"),
        apply_patches(registry=registry) as report,
    ):
        assert report.pending == {}
        assert load("latemod").f(1) == 1
    assert list(report.skipped) == ["fake-spec"]


def test_a_spec_that_is_found_inside_has_all_methods_of_its_loader(write: Write, make_spec: MakeSpec) -> None:
    write(latemod=FUNCTION)
    with apply_patches(registry=Registry([make_spec("latemod:f")])):
        spec = importlib.util.find_spec("latemod")
        assert spec is not None
        loader: Any = spec.loader
        assert loader.get_source("latemod") == FUNCTION
        assert loader.get_code("latemod").co_filename.endswith("latemod.py")


def test_modules_that_are_not_python_source_are_left_to_their_loaders(make_spec: MakeSpec) -> None:
    with apply_patches(registry=Registry([make_spec("json.tool:main")])):
        for name in ("sys", "zipimport", "_json"):
            spec = WATCH.find_spec(name, None)
            assert spec is None or type(spec.loader).__name__ != "_Observed"
        assert WATCH.find_spec("nosuchmodule", None) is None


REAL = """
import sys, warnings
warnings.simplefilter("ignore")
import transformers, transformers.modeling_rope_utils
from exportcompat import apply_patches

name = "transformers.models.phi3.modeling_phi3"
assert name not in sys.modules
finders = list(sys.meta_path)
with apply_patches() as report:
    from transformers.models.phi3 import modeling_phi3 as phi3
    inside = vars(phi3.Phi3RotaryEmbedding)["forward"]
    targets = [use.target for use in report.applied["rotary-frequencies"]]
    assert f"{name}:Phi3RotaryEmbedding.forward" in targets, targets
after = vars(phi3.Phi3RotaryEmbedding)["forward"]
assert inside is not after and inside.__wrapped__ is after
assert type(phi3.__spec__.loader).__name__ == type(phi3.__loader__).__name__ == "SourceFileLoader"
assert sys.meta_path == finders
from exportcompat.registry._scope import ENGINE
assert ENGINE._stacks == {}
print("clean")
"""


def test_a_real_model_that_is_first_imported_inside() -> None:
    found = subprocess.run([sys.executable, "-c", REAL], capture_output=True, text=True, check=False)
    assert found.stdout.endswith("clean\n"), found.stderr
