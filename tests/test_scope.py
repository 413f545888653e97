"""A scope applies what its plan says, and gives back exactly what was there."""

import json
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from exportcompat import apply_patches, plan
from exportcompat.registry import (
    PACKAGES,
    AttributeMissingError,
    ConflictError,
    DriftError,
    DriftWarning,
    Fingerprints,
    ModuleMissingError,
    NotApplicableError,
    OnDrift,
    PatchingSpec,
    Registry,
    SpecError,
    TargetError,
    Unchanged,
    fingerprint,
)

MakeSpec = Callable[..., PatchingSpec]

CALLS: list[tuple[str, Callable[[Any], Any], Any]] = [
    ("fakepkg:f", lambda pkg: pkg.f(1), 1),
    ("fakepkg:Thing.method", lambda pkg: pkg.Thing().method(1), 1),
    ("fakepkg:Thing.static", lambda pkg: pkg.Thing().static(1), 1),
    ("fakepkg:Thing.static", lambda pkg: pkg.Thing.static(1), 1),
    ("fakepkg:Thing.name", lambda pkg: pkg.Thing.name(), "OwnThing"),
    ("fakepkg:Thing.name", lambda pkg: pkg.Thing().name(), "OwnThing"),
    ("fakepkg:Thing.size", lambda pkg: pkg.Thing().size, 3),
    ("fakepkg:Thing.greet", lambda pkg: pkg.Thing().greet(), "hello"),
    ("fakepkg:TABLE[item]", lambda pkg: pkg.TABLE["item"](1), 1),
    ("fakepkg:LEVELS[item]", lambda pkg: pkg.LEVELS["item"](1), 1),
]


def owners(pkg: Any) -> list[Any]:
    """Return every namespace of the fake package."""
    levels = type(pkg.LEVELS)
    return [pkg, pkg.Base, pkg.Thing, pkg.TABLE, pkg.LEVELS, pkg.LEVELS.own, levels, levels.shared]


@pytest.fixture
def everything(fakepkg: ModuleType, make_spec: MakeSpec) -> Registry:
    """Return a registry with one spec for each kind of place of the fake package."""
    targets = dict.fromkeys(target for target, _, _ in CALLS)
    return Registry([make_spec(target, id=f"spec-{index}") for index, target in enumerate(targets)])


@pytest.mark.parametrize(("target", "call", "expected"), CALLS)
def test_every_kind_of_place(
    fakepkg: ModuleType, make_spec: MakeSpec, snapshot: Any, target: str, call: Callable[[Any], Any], expected: Any
) -> None:
    before = snapshot(*owners(fakepkg))
    keys = [list(vars(owner)) for owner in (fakepkg, fakepkg.Base, fakepkg.Thing)]
    with apply_patches(registry=Registry([make_spec(target)])):
        assert call(fakepkg) == ("patched", expected)
        assert before.changes()
    assert call(fakepkg) == expected
    assert before.changes() == []
    assert [list(vars(owner)) for owner in (fakepkg, fakepkg.Base, fakepkg.Thing)] == keys


def test_an_inherited_attribute_is_inherited_again(fakepkg: ModuleType, make_spec: MakeSpec) -> None:
    with apply_patches(registry=Registry([make_spec("fakepkg:Thing.greet")])):
        assert "greet" in vars(fakepkg.Thing)
        assert fakepkg.Base().greet() == "hello"
    assert "greet" not in vars(fakepkg.Thing)


def test_a_property_keeps_its_other_functions(fakepkg: ModuleType, make_spec: MakeSpec) -> None:
    raw = vars(fakepkg.Thing)["size"]
    with apply_patches(registry=Registry([make_spec("fakepkg:Thing.size")])):
        now = vars(fakepkg.Thing)["size"]
        assert now is not raw
        assert (now.fset, now.fdel, now.__doc__) == (raw.fset, raw.fdel, raw.__doc__)
    assert vars(fakepkg.Thing)["size"] is raw


def test_an_item_of_the_class_is_not_left_on_the_instance(fakepkg: ModuleType, make_spec: MakeSpec) -> None:
    levels = fakepkg.LEVELS
    with apply_patches(registry=Registry([make_spec("fakepkg:LEVELS[item]")])):
        assert "item" in levels.own
        assert levels.shared["item"] is fakepkg.f
    assert levels.own == {}
    levels.own["item"] = fakepkg.g
    with apply_patches(registry=Registry([make_spec("fakepkg:LEVELS[item]")])):
        assert levels["item"](1) == ("patched", -1)
    assert levels.own == {"item": fakepkg.g}


def test_a_mapping_that_makes_its_dict_when_it_is_written_to(
    make_module: Callable[..., ModuleType], make_spec: MakeSpec, fakepkg: ModuleType
) -> None:
    class Lazy:
        shared = {"item": fakepkg.f}

        def __getitem__(self, key: str) -> Any:
            return vars(self).get("own", self.shared)[key]

        def __setitem__(self, key: str, value: Any) -> None:
            vars(self).setdefault("own", {})[key] = value

        def __contains__(self, key: str) -> bool:
            return key in self.shared

    lazy = Lazy()
    make_module("lazypkg", LEVELS=lazy)
    with apply_patches(registry=Registry([make_spec("lazypkg:LEVELS[item]")])):
        assert lazy["item"](1) == ("patched", 1)
    assert vars(lazy) == {"own": {}}


def test_all_places_at_once(fakepkg: ModuleType, everything: Registry, snapshot: Any) -> None:
    before = snapshot(*owners(fakepkg))
    with apply_patches(registry=everything) as report:
        assert sorted(report.applied) == everything.ids()
        assert all(call(fakepkg) == ("patched", expected) for _, call, expected in CALLS)
    assert before.changes() == []


def test_nesting(fakepkg: ModuleType, everything: Registry, snapshot: Any) -> None:
    before = snapshot(*owners(fakepkg))
    with apply_patches(registry=everything):
        inside = snapshot(*owners(fakepkg))
        with apply_patches(registry=everything):
            assert fakepkg.f(1) == ("patched", 1)
            assert inside.changes() == []
        assert fakepkg.f(1) == ("patched", 1)
        assert inside.changes() == []
    assert before.changes() == []


def test_scopes_that_overlap(fakepkg: ModuleType, everything: Registry, snapshot: Any) -> None:
    before = snapshot(*owners(fakepkg))
    first, second = apply_patches(registry=everything), apply_patches(registry=everything, include=["spec-0"])
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert fakepkg.f(1) == ("patched", 1)
    assert fakepkg.Thing().method(1) == 1
    second.__exit__(None, None, None)
    assert before.changes() == []


def test_one_object_may_be_entered_again_and_again(fakepkg: ModuleType, everything: Registry, snapshot: Any) -> None:
    before = snapshot(*owners(fakepkg))
    scope = apply_patches(registry=everything)
    for _ in range(2):
        with scope as outer, scope as inner:
            assert outer is not inner
            assert fakepkg.f(1) == ("patched", 1)
        assert before.changes() == []


def test_each_thread_leaves_what_it_entered(fakepkg: ModuleType, everything: Registry) -> None:
    scope, entered, leave = apply_patches(registry=everything), threading.Event(), threading.Event()
    seen: list[int] = []

    def other() -> None:
        with scope as report:
            entered.set()
            leave.wait(60)
            fakepkg.f(1)
            seen.append(report.hits["spec-0"])

    thread = threading.Thread(target=other)
    with scope as report:
        thread.start()
        entered.wait(60)
    assert report.hits["spec-0"] == 0
    leave.set()
    thread.join()
    assert seen == [1]
    assert report.hits["spec-0"] == 0


def test_as_a_decorator(fakepkg: ModuleType, everything: Registry, snapshot: Any) -> None:
    @apply_patches(registry=everything)
    def call(depth: int) -> Any:
        return call(depth - 1) if depth else fakepkg.f(1)

    before = snapshot(*owners(fakepkg))
    for depth in (0, 0, 2):
        assert call(depth) == ("patched", 1)
        assert before.changes() == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exception_in_the_body(
    fakepkg: ModuleType, everything: Registry, snapshot: Any, error: type[BaseException]
) -> None:
    before = snapshot(*owners(fakepkg))
    with pytest.raises(error), apply_patches(registry=everything):
        raise error
    assert before.changes() == []


def test_a_generator_that_is_thrown_away(fakepkg: ModuleType, everything: Registry, snapshot: Any) -> None:
    def steps() -> Any:
        with apply_patches(registry=everything):
            yield fakepkg.f(1)

    before = snapshot(*owners(fakepkg))
    running = steps()
    assert next(running) == ("patched", 1)
    running.close()
    assert before.changes() == []


def test_what_was_captured_by_name_behaves_as_the_original_afterwards(fakepkg: ModuleType, make_spec: MakeSpec) -> None:
    registry = Registry([make_spec("fakepkg:f")])
    with apply_patches(registry=registry):
        captured = fakepkg.f
        assert captured(1) == ("patched", 1)
    assert captured is not fakepkg.f
    assert captured(1) == 1
    with apply_patches(registry=registry):
        assert captured(1) == ("patched", 1)
        assert captured is fakepkg.f
    assert captured(1) == 1


def test_a_replacement_looks_like_its_original(fakepkg: ModuleType, make_spec: MakeSpec) -> None:
    with apply_patches(registry=Registry([make_spec("fakepkg:f")])):
        replaced = fakepkg.f
        assert replaced.__name__ == "f"
        assert replaced.__qualname__ == replaced.__wrapped__.__qualname__
    assert replaced.__wrapped__ is fakepkg.f


def test_a_replacement_that_is_a_class_is_put_in_as_it_is(
    fakepkg: ModuleType, make_module: Callable[..., ModuleType], make_spec: MakeSpec
) -> None:
    class Other(fakepkg.Thing):  # type: ignore[misc,name-defined]
        pass

    make_module("classfactories", other=lambda original: Other)
    original = fakepkg.Thing
    with apply_patches(registry=Registry([make_spec("fakepkg:Thing", replacement="classfactories:other")])):
        assert fakepkg.Thing is Other
    assert fakepkg.Thing is original


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        (lambda _: Unchanged("it is new"), "it is new"),
        (lambda original: original, "its factory has returned the original"),
    ],
    ids=["with a reason", "without"],
)
def test_a_place_that_its_factory_leaves_alone_is_reported(
    fakepkg: ModuleType,
    make_module: Callable[..., ModuleType],
    make_spec: MakeSpec,
    factory: Callable[[Any], Any],
    reason: str,
) -> None:
    make_module("leavingfactories", left=factory)
    registry, original = Registry([make_spec(replacement="leavingfactories:left")]), fakepkg.f
    for _ in ("first entry", "later entry"):
        with apply_patches(registry=registry) as report:
            assert fakepkg.f is original
        assert report.unchanged == {"fake-spec": {"fakepkg:f": reason}}
        assert json.loads(report.to_json())["unchanged"] == report.unchanged
        assert "fake-spec" in report.skipped and not report.applied


def test_a_value_can_be_replaced(
    fakepkg: ModuleType, make_module: Callable[..., ModuleType], make_spec: MakeSpec
) -> None:
    make_module("valuefactories", more=lambda original: original + 1)
    with apply_patches(registry=Registry([make_spec("fakepkg:NUMBER", replacement="valuefactories:more")])):
        assert fakepkg.NUMBER == 2
    assert fakepkg.NUMBER == 1


def test_a_target_that_someone_else_has_replaced_in_between(fakepkg: ModuleType, make_spec: MakeSpec) -> None:
    registry = Registry([make_spec("fakepkg:f")])
    with apply_patches(registry=registry):
        assert fakepkg.f(2) == ("patched", 2)
    fakepkg.f = fakepkg.g  # type: ignore[attr-defined]
    with apply_patches(registry=registry):
        assert fakepkg.f(2) == ("patched", -2)
    assert fakepkg.f is fakepkg.g


# What is applied, what is not.


def test_what_is_not_for_these_versions_is_skipped_with_a_reason(fakepkg: ModuleType, make_spec: MakeSpec) -> None:
    old = make_spec("fakepkg:f", id="old", requires=("fakepkg<1",))
    older = make_spec("fakepkg:g", id="old", requires=("fakepkg>=2",))
    with apply_patches(registry=Registry([old, older, make_spec("fakepkg:Thing.method")])) as report:
        assert fakepkg.f(1) == 1
    assert report.skipped == {"old": "fakepkg 1.0 is not in <1; fakepkg 1.0 is not in >=2"}
    assert list(report.applied) == ["fake-spec"]
    assert report.versions["fakepkg"] == "1.0"
    # Those that matter to any export are there although no spec asks for them.
    assert list(report.versions) == [*PACKAGES, "fakepkg"]


def test_a_variant_that_applies_hides_the_others(fakepkg: ModuleType, make_spec: MakeSpec) -> None:
    variants = [make_spec(requires=("fakepkg<1",)), make_spec(requires=("fakepkg>=1",))]
    for order in (variants, variants[::-1]):
        with apply_patches(registry=Registry(order)) as report:
            assert fakepkg.f(1) == ("patched", 1)
        assert report.skipped == {}


def test_include_and_exclude(fakepkg: ModuleType, make_spec: MakeSpec) -> None:
    registry = Registry([make_spec("fakepkg:f", id="one"), make_spec("fakepkg:g", id="two")])
    with apply_patches(registry=registry, include="one") as report:
        assert (fakepkg.f(1), fakepkg.g(1)) == (("patched", 1), -1)
    assert report.skipped == {"two": "not among the ids that the caller included"}
    with apply_patches(registry=registry, exclude="one") as report:
        assert (fakepkg.f(1), fakepkg.g(1)) == (1, ("patched", -1))
    assert report.skipped == {"one": "excluded by the caller"}


def test_an_id_that_was_named_and_cannot_apply(fakepkg: ModuleType, make_spec: MakeSpec, snapshot: Any) -> None:
    before = snapshot(*owners(fakepkg))
    registry = Registry([make_spec(requires=("fakepkg<1",)), make_spec("fakepkg:g", id="two")])
    with pytest.raises(NotApplicableError), apply_patches(registry=registry, include=["fake-spec", "two"]):
        pass
    assert before.changes() == []


def test_on_drift_has_three_values(make_spec: MakeSpec) -> None:
    with pytest.raises(SpecError, match="on_drift is 'ignore'; wanted 'warn', 'skip', 'error'"):
        apply_patches(registry=Registry([make_spec()]), on_drift="ignore")  # type: ignore[arg-type]


def test_a_model_has_modules(fakepkg: ModuleType, make_spec: MakeSpec) -> None:
    with pytest.raises(SpecError, match="model is a str; wanted an nn.Module"), apply_patches("llama"):
        pass


@pytest.mark.parametrize(
    ("replacement", "found"), [("nosuchpkg:f", "No module named 'nosuchpkg'"), ("fakefactories:f", "'f'")]
)
def test_a_replacement_that_cannot_be_imported(
    fakepkg: ModuleType, make_spec: MakeSpec, snapshot: Any, replacement: str, found: str
) -> None:
    before = snapshot(*owners(fakepkg))
    registry = Registry([make_spec("fakepkg:g", id="first"), make_spec(replacement=replacement, definer="a.py:1")])
    with pytest.raises(SpecError) as caught, apply_patches(registry=registry):
        pass
    assert str(caught.value).startswith(f"spec 'fake-spec' (a.py:1): replacement {replacement!r} cannot be had: ")
    assert found in str(caught.value)
    assert before.changes() == []


# Drift.

DRIFTS = [
    ({"replacement": "fakefactories:renamed"}, DriftError, "upstream's parameter x stands where the replacement has y"),
    ({"replacement": "fakefactories:failing"}, DriftError, "the factory of the replacement failed with AttributeError"),
    ({"targets": ("fakepkg:gone",)}, AttributeMissingError, "fakepkg has no attribute 'gone'"),
    ({"targets": ("fakepkg.gone:f",)}, ModuleMissingError, "there is no module 'fakepkg.gone'"),
    ({"targets": ("fakepkg:f", "fakepkg:gone")}, AttributeMissingError, "fakepkg has no attribute 'gone'"),
    ({"targets": ("fakepkg:Thing.static", "json.tool:gone", "fakepkg:gone")}, TargetError, "no attribute 'gone'"),
]


def registry_with_drift(make_spec: MakeSpec, fields: dict[str, Any]) -> Registry:
    """Return a registry of one sound spec and one that does not fit."""
    return Registry([make_spec("fakepkg:g", id="sound"), make_spec(id="drifted", **{"kind": "replace", **fields})])


@pytest.fixture
def unproved_kind(make_module: Callable[..., ModuleType], fakepkg: ModuleType) -> None:
    """Let `fakefactories:tagged` fit a spec of kind "replace"."""
    vars(sys.modules["fakefactories"])["tagged"] = lambda original: lambda x: ("patched", original(x))


@pytest.mark.usefixtures("unproved_kind")
@pytest.mark.parametrize(("fields", "error", "found"), DRIFTS)
def test_a_spec_that_does_not_fit_is_left_out_with_a_warning(
    fakepkg: ModuleType, make_spec: MakeSpec, snapshot: Any, fields: dict[str, Any], error: Any, found: str
) -> None:
    before = snapshot(*owners(fakepkg))
    with pytest.warns(DriftWarning, match="the spec was left out") as warned:
        with apply_patches(registry=registry_with_drift(make_spec, fields)) as report:
            assert (fakepkg.f(1), fakepkg.Thing.static(1)) == (1, 1)
            assert fakepkg.g(1) == ("patched", -1)
        assert before.changes() == []
    assert [item.filename for item in warned] == [__file__]
    assert found in report.skipped["drifted"]
    assert "drifted" not in report.pending
    assert [(item.spec_id, item.applied) for item in report.drifted] == [("drifted", False)]


@pytest.mark.usefixtures("unproved_kind")
@pytest.mark.parametrize(("fields", "error", "found"), DRIFTS)
def test_a_spec_that_does_not_fit_is_left_out_quietly(
    fakepkg: ModuleType, make_spec: MakeSpec, fields: dict[str, Any], error: Any, found: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with apply_patches(registry=registry_with_drift(make_spec, fields), on_drift="skip") as report:
            assert fakepkg.f(1) == 1
    assert found in report.skipped["drifted"]


@pytest.mark.usefixtures("unproved_kind")
@pytest.mark.parametrize(("fields", "error", "found"), DRIFTS)
@pytest.mark.parametrize("how", [{"on_drift": "error"}, {"include": ["sound", "drifted"]}])
def test_a_spec_that_does_not_fit_raises(
    fakepkg: ModuleType,
    make_spec: MakeSpec,
    snapshot: Any,
    fields: dict[str, Any],
    error: type[Exception],
    found: str,
    how: dict[str, Any],
) -> None:
    before = snapshot(*owners(fakepkg))
    with pytest.raises(error, match=found), apply_patches(registry=registry_with_drift(make_spec, fields), **how):
        pass
    assert before.changes() == []


def proved(tmp_path: Path, *specs: PatchingSpec, **known: str) -> Registry:
    """Return a registry that knows the fingerprints `known` of functions of `fakepkg`."""
    path = tmp_path / "fingerprints.json"
    path.write_text(json.dumps({f"fakepkg:{name}": {digits: ["1.0"]} for name, digits in known.items()}))
    return Registry(specs, fingerprints=Fingerprints(path))


def test_a_proved_source_is_no_drift(fakepkg: ModuleType, make_spec: MakeSpec, tmp_path: Path) -> None:
    registry = proved(tmp_path, make_spec(), f=fingerprint(fakepkg.f))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with apply_patches(registry=registry, on_drift="error"), apply_patches(registry=registry) as report:
            assert fakepkg.f(1) == ("patched", 1)
    assert report.drifted == []


def test_another_source_is_applied_with_a_warning(fakepkg: ModuleType, make_spec: MakeSpec, tmp_path: Path) -> None:
    registry = proved(tmp_path, make_spec(), f="0123456789ab")
    with pytest.warns(DriftWarning, match="applied, as the signature fits") as warned:
        with apply_patches(registry=registry) as report:
            assert fakepkg.f(1) == ("patched", 1)
    assert [item.filename for item in warned] == [__file__]
    (drift,) = report.drifted
    what = f"its source ({fingerprint(fakepkg.f)}) is none of the 1 that the spec was proved against"
    assert (drift.spec_id, drift.target, drift.what, drift.applied) == ("fake-spec", "fakepkg:f", what, True)


def test_another_source_is_skipped(fakepkg: ModuleType, make_spec: MakeSpec, tmp_path: Path) -> None:
    registry = proved(tmp_path, make_spec(), f="0123456789ab")
    with apply_patches(registry=registry, on_drift="skip") as report:
        assert fakepkg.f(1) == 1
    assert report.skipped["fake-spec"].startswith("spec 'fake-spec': target 'fakepkg:f' has drifted: its source (")
    assert report.skipped["fake-spec"].endswith("Report it with your versions; exclude the id to do without it")


def test_another_source_is_an_error(fakepkg: ModuleType, make_spec: MakeSpec, tmp_path: Path) -> None:
    registry = proved(tmp_path, make_spec("fakepkg:g", id="first"), make_spec(), f="0", g=fingerprint(fakepkg.g))
    with pytest.raises(DriftError, match="has drifted"), apply_patches(registry=registry, on_drift="error"):
        pass


def test_an_id_that_was_named_applies_to_another_source(
    fakepkg: ModuleType, make_spec: MakeSpec, tmp_path: Path
) -> None:
    registry = proved(tmp_path, make_spec(), f="0")
    with pytest.warns(DriftWarning), apply_patches(registry=registry, include="fake-spec"):
        assert fakepkg.f(1) == ("patched", 1)
    with pytest.raises(DriftError), apply_patches(registry=registry, include="fake-spec", on_drift="skip"):
        pass


def test_a_spec_with_one_target_too_few_is_not_said_to_be_applied(
    fakepkg: ModuleType, make_spec: MakeSpec, tmp_path: Path
) -> None:
    registry = proved(tmp_path, make_spec("fakepkg:f", "fakepkg:gone"), f="0")
    with pytest.warns(DriftWarning) as warned, apply_patches(registry=registry) as report:
        assert fakepkg.f(1) == 1
    assert len(warned) == 1
    assert [item.applied for item in report.drifted] == [False]


def test_warnings_that_are_errors_leave_nothing_behind(
    fakepkg: ModuleType, make_spec: MakeSpec, tmp_path: Path, snapshot: Any
) -> None:
    before = snapshot(*owners(fakepkg))
    registry = proved(tmp_path, make_spec("fakepkg:g", id="first"), make_spec(), f="0", g=fingerprint(fakepkg.g))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DriftWarning), apply_patches(registry=registry):
            pass
    assert before.changes() == []


@pytest.mark.parametrize("on_drift", ["warn", "skip", "error"])
def test_a_builtin_has_no_source_to_drift(
    make_module: Callable[..., ModuleType], fakepkg: ModuleType, make_spec: MakeSpec, tmp_path: Path, on_drift: OnDrift
) -> None:
    fakepkg.f = len  # type: ignore[attr-defined]
    with apply_patches(registry=proved(tmp_path, make_spec()), on_drift=on_drift):
        assert fakepkg.f([1, 2]) == ("patched", 2)


# The report.


def test_calls_are_counted(fakepkg: ModuleType, make_spec: MakeSpec) -> None:
    used, unused = make_spec("fakepkg:f", "fakepkg:Thing.method", id="used"), make_spec("fakepkg:g", id="unused")
    registry = Registry([used, unused])
    fakepkg.f(1)
    with apply_patches(registry=registry) as outer:
        fakepkg.f(1)
        with apply_patches(registry=registry) as inner:
            fakepkg.f(1)
            fakepkg.Thing().method(1)
        fakepkg.f(1)
    fakepkg.f(1)
    assert (outer.hits, inner.hits) == ({"used": 4, "unused": 0}, {"used": 2, "unused": 0})
    assert (outer.used, inner.used) == (["used"], ["used"])
    assert [(use.target, use.hits) for use in outer.applied["used"]] == [("fakepkg:f", 3), ("fakepkg:Thing.method", 1)]


def test_the_report_can_be_written_as_json(fakepkg: ModuleType, make_spec: MakeSpec, tmp_path: Path) -> None:
    specs = [
        make_spec("fakepkg:f", id="used"),
        make_spec("fakepkg:g", id="old", requires=("fakepkg<1",)),
        make_spec("json.tool:main", id="waits"),
    ]
    with pytest.warns(DriftWarning), apply_patches(registry=proved(tmp_path, *specs, f="0")) as report:
        fakepkg.f(1)
    found = json.loads(report.to_json())
    assert found == report.to_dict()
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert list(found["versions"]) == [*PACKAGES, "fakepkg"]
    assert found["versions"]["fakepkg"] == "1.0"
    assert found["applied"] == {"used": {"fakepkg:f": 1}}
    assert found["used"] == ["used"]
    assert found["skipped"] == {"old": "fakepkg 1.0 is not in <1"}
    assert found["pending"] == {"waits": ["json.tool:main"]}
    assert [item["spec_id"] for item in found["drifted"]] == ["used"]


# A model narrows the specs.


class Small(torch.nn.Module):  # type: ignore[misc]
    """A module without anything."""

    def forward(self, x: int) -> int:
        """Return the argument."""
        return x


class Smaller(Small):
    """A module that inherits its forward."""


class Stranger(torch.nn.Module):  # type: ignore[misc]
    """A module that no model here has."""

    def forward(self, x: int) -> int:
        """Return the argument."""
        return x


def test_a_model_narrows_methods_of_modules(
    make_module: Callable[..., ModuleType], fakepkg: ModuleType, make_spec: MakeSpec
) -> None:
    make_module("modelling", Small=Small, Stranger=Stranger)
    specs = [make_spec(f"modelling:{name}.forward", id=name.lower()) for name in ("Small", "Stranger")]
    model = torch.nn.Sequential(torch.nn.ReLU(), Smaller())
    with apply_patches(model, registry=Registry([*specs, make_spec()])) as report:
        assert model[1](1) == ("patched", 1)
        assert Stranger()(1) == 1
        assert fakepkg.f(1) == ("patched", 1)
    assert sorted(report.applied) == ["fake-spec", "small"]
    assert report.skipped == {"stranger": "nothing that is loaded, or that the model has, is concerned"}
    with apply_patches(registry=Registry(specs)) as report:
        assert Stranger()(1) == ("patched", 1)
    assert sorted(report.applied) == ["small", "stranger"]


# Two registries.


def test_two_specs_of_two_registries_conflict(fakepkg: ModuleType, make_spec: MakeSpec, snapshot: Any) -> None:
    before = snapshot(*owners(fakepkg))
    one = Registry([make_spec(id="one", definer="one.py:1")])
    two = Registry([make_spec("fakepkg:g", id="sound"), make_spec(id="two", definer="two.py:2")])
    with apply_patches(registry=one):
        inside = snapshot(*owners(fakepkg))
        with pytest.raises(ConflictError) as caught, apply_patches(registry=two):
            pass
        assert inside.changes() == []
        assert fakepkg.f(1) == ("patched", 1)
        with apply_patches(registry=two, exclude="two"):
            assert fakepkg.g(1) == ("patched", -1)
    assert str(caught.value) == (
        "target 'fakepkg:f' is already replaced by spec 'one' (one.py:1); spec 'two' (two.py:2) wants it too. "
        "Leave one of the scopes, or exclude one id"
    )
    with apply_patches(registry=two):
        assert fakepkg.f(1) == ("patched", 1)
    assert before.changes() == []


def test_equal_specs_of_two_registries_share_a_target(fakepkg: ModuleType, make_spec: MakeSpec, snapshot: Any) -> None:
    before = snapshot(*owners(fakepkg))
    with apply_patches(registry=Registry([make_spec()])), apply_patches(registry=Registry([make_spec()])):
        assert fakepkg.f(1) == ("patched", 1)
    assert before.changes() == []


@pytest.mark.parametrize("use", [apply_patches, plan])
@pytest.mark.parametrize("registry", [3, "mine", []])
def test_what_is_no_registry_is_refused(use: Any, registry: Any) -> None:
    with pytest.raises(SpecError, match="is no registry; write"):
        use(registry=registry)
