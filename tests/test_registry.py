"""A registry holds no two specs that would write the same place for the same versions."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exportcompat import DriftWarning, apply_patches
from exportcompat.patches import default_registry
from exportcompat.registry import (
    DuplicateSpecError,
    Fingerprints,
    PatchingSpec,
    ReadOnlyError,
    Registry,
    SpecError,
    UnknownSpecError,
    fingerprint,
)

MakeSpec = Callable[..., PatchingSpec]


def test_specs_keep_their_order(make_spec: MakeSpec) -> None:
    specs = [make_spec("fakepkg:f", id="b"), make_spec("fakepkg:g", id="a")]
    registry = Registry(specs)
    assert list(registry) == specs
    assert registry.ids() == ["b", "a"]
    assert len(registry) == 2


def test_overlapping_ranges_on_one_target_name_both_definers(make_spec: MakeSpec) -> None:
    one = make_spec(id="one", requires=("fakepkg>=1,<3",), definer="one.py:1")
    two = make_spec(id="two", requires=("fakepkg>=2",), definer="two.py:2")
    with pytest.raises(DuplicateSpecError) as caught:
        Registry([one, two])
    message = str(caught.value)
    assert "'one' (fakepkg>=1,<3; one.py:1)" in message
    assert "'two' (fakepkg>=2; two.py:2)" in message
    assert "have the same target 'fakepkg:f' for some of the same versions; make their ranges disjoint" in message


def test_a_refused_spec_is_not_added(make_spec: MakeSpec) -> None:
    registry = Registry([make_spec()])
    with pytest.raises(DuplicateSpecError):
        registry.add(make_spec(id="other"))
    assert registry.ids() == ["fake-spec"]


def test_the_same_id_for_some_of_the_same_versions(make_spec: MakeSpec) -> None:
    with pytest.raises(DuplicateSpecError, match="have the same id for some of the same versions"):
        Registry([make_spec("fakepkg:f"), make_spec("fakepkg:g")])


def test_the_same_spec_twice(make_spec: MakeSpec) -> None:
    spec = make_spec()
    with pytest.raises(DuplicateSpecError):
        Registry([spec, spec])


def test_disjoint_variants_of_one_id(make_spec: MakeSpec) -> None:
    old, new = make_spec(requires=("fakepkg<2",)), make_spec(requires=("fakepkg>=2",))
    registry = Registry([old, new])
    assert registry.ids() == ["fake-spec"]
    assert registry.variants("fake-spec") == [old, new]


def test_ranges_are_disjoint_if_those_of_one_package_are(make_spec: MakeSpec) -> None:
    left = make_spec(id="left", requires=("fakepkg>=1", "torch<2.9"))
    right = make_spec(id="right", requires=("fakepkg>=1", "torch>=2.9"))
    assert len(Registry([left, right])) == 2


def test_ranges_of_different_packages_overlap(make_spec: MakeSpec) -> None:
    with pytest.raises(DuplicateSpecError):
        Registry([make_spec(id="left", requires=("a>=1",)), make_spec(id="right", requires=("b>=1",))])


def test_an_unknown_id_lists_those_that_are_known(make_spec: MakeSpec) -> None:
    registry = Registry([make_spec(id="one"), make_spec("fakepkg:g", id="two")])
    with pytest.raises(UnknownSpecError, match="no spec has the id 'three'; known ids: one, two"):
        registry.variants("three")
    with pytest.raises(UnknownSpecError, match="known ids: none"):
        Registry().variants("three")


class TestDefaultRegistry:
    """It is everybody's, so nobody changes it."""

    def test_is_read_only(self, make_spec: MakeSpec) -> None:
        before = len(default_registry())
        with pytest.raises(ReadOnlyError, match=r"spec 'fake-spec' cannot be added.*default_registry\(\) \| \[spec\]"):
            default_registry().add(make_spec())
        for name in ("fingerprints", "companions", "changed"):
            with pytest.raises(AttributeError):
                setattr(default_registry(), name, None)
        default_registry().changed["a"] = "b"  # type: ignore[index]
        assert (len(default_registry()), default_registry().changed) == (before, {})

    def test_gives_its_fingerprints_and_companions_on(self, make_spec: MakeSpec) -> None:
        both = default_registry() | [make_spec()]
        assert [*both] == [*default_registry(), make_spec()]
        assert (both.companions, both.packages()[-1]) == (default_registry().companions, "fakepkg")
        assert {spec.fingerprints for spec in both} == {default_registry().fingerprints, None}
        assert both.fingerprints is None

    def test_keeps_them_the_obvious_way(self, make_spec: MakeSpec, tmp_path: Path) -> None:
        lock = Fingerprints(tmp_path / "mine.json")
        both = Registry([*default_registry(), make_spec()], fingerprints=lock)
        *ours, mine = both
        assert {spec.fingerprints for spec in ours} == {default_registry().fingerprints}
        assert mine.fingerprints is lock
        assert {spec.origin for spec in ours} == {"exportcompat"}


def test_a_registry_marks_copies_of_specs(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec, lock = make_spec(), Fingerprints(tmp_path / "lock.json")
    (marked,) = Registry([spec], fingerprints=lock, origin="mine")
    assert (marked.fingerprints, marked.origin) == (lock, "mine")
    assert (spec.fingerprints, spec.origin) == (None, "")
    assert (marked, hash(marked), marked.definer) == (spec, hash(spec), spec.definer)
    # The first that says it counts; what was read of a lock file stays in the process.
    assert next(iter(Registry([marked], origin="other"))).origin == "mine"
    assert pickle.loads(pickle.dumps(marked)).fingerprints.path == lock.path


def test_a_union_has_the_left_specs_first_and_refuses_duplicates(make_spec: MakeSpec) -> None:
    left, right = Registry([make_spec(id="b")]), Registry([make_spec("fakepkg:g", id="a")])
    assert ((left | right).ids(), (right | left).ids(), left.ids()) == (["b", "a"], ["a", "b"], ["b"])
    with pytest.raises(DuplicateSpecError, match=r"have the same id .* registry.override\(spec\)"):
        left | left
    with pytest.raises(SpecError, match="write registry | \\[spec\\]"):
        left | make_spec()  # type: ignore[operator]
    with pytest.raises(SpecError, match="1 is no PatchingSpec"):
        left | [1]  # type: ignore[list-item]


def test_an_override_stands_in_the_place_of_all_variants(make_spec: MakeSpec) -> None:
    old, new = make_spec(requires=("fakepkg<2",)), make_spec(requires=("fakepkg>=2",))
    other = make_spec("fakepkg:g", id="other")
    registry = Registry([old, other, new])
    mine = make_spec("fakepkg:Thing.method", definer="mine.py:3")
    made = registry.override(mine)
    assert [*made] == [mine, other]
    assert made.changed == {"fake-spec": "overridden by mine.py:3"}
    assert [*registry] == [old, other, new]
    assert (made | [make_spec("fakepkg:h", id="more")]).changed == made.changed
    with pytest.raises(UnknownSpecError, match="did you mean 'fake-spec'"):
        registry.override(make_spec(id="fake-spek"))
    with pytest.raises(DuplicateSpecError):
        registry.override(make_spec("fakepkg:g"))


def test_narrowing_takes_versions_away(make_spec: MakeSpec, tmp_path: Path) -> None:
    lock = Fingerprints(tmp_path / "lock.json")
    variants = [make_spec(requires=("fakepkg>=1,<2",)), make_spec(requires=("fakepkg>=2",))]
    registry = Registry(variants, fingerprints=lock)
    made = registry.narrow("fake-spec", "fakepkg<3", "torch>=2.9")
    assert [spec.requires for spec in made] == [("fakepkg>=1,<2,<3", "torch>=2.9"), ("fakepkg>=2,<3", "torch>=2.9")]
    assert {spec.fingerprints for spec in made} == {lock}
    assert made.changed == {"fake-spec": "narrowed to fakepkg<3, torch>=2.9"}
    assert [spec.requires for spec in registry.narrow("fake-spec", "fakepkg<2")] == [("fakepkg>=1,<2,<2",)]
    with pytest.raises(SpecError, match="is for fakepkg>=1,<2 or fakepkg>=2, and for none of fakepkg<1"):
        registry.narrow("fake-spec", "fakepkg<1")
    with pytest.raises(SpecError, match="nothing to narrow it to"):
        registry.narrow("fake-spec")


def test_the_report_says_what_is_not_as_its_package_has_it(fakepkg: Any, make_spec: MakeSpec) -> None:
    registry = Registry([make_spec()]).narrow("fake-spec", "fakepkg<5")
    for _ in range(2):
        with apply_patches(registry=registry) as report:
            assert fakepkg.f(1) == ("patched", 1)
        assert report.to_dict()["changed"] == {"fake-spec": "narrowed to fakepkg<5"}


def test_drift_is_judged_by_the_lock_of_each_spec(fakepkg: Any, make_spec: MakeSpec, tmp_path: Path) -> None:
    proved, other = tmp_path / "proved.json", tmp_path / "other.json"
    proved.write_text(json.dumps({"fakepkg:f": {fingerprint(fakepkg.f): ["1.0"]}}), "utf-8")
    other.write_text("{}", "utf-8")
    one = Registry([make_spec(id="one")], fingerprints=Fingerprints(proved))
    two = Registry([make_spec("fakepkg:g", id="two")], fingerprints=Fingerprints(other))
    with pytest.warns(DriftWarning, match="'two'"), apply_patches(registry=one | two) as report:
        pass
    assert [drift.spec_id for drift in report.drifted] == ["two"]


def test_iteration_is_over_a_copy(make_spec: MakeSpec) -> None:
    registry = Registry([make_spec()])
    for spec in registry:
        registry.add(make_spec("fakepkg:g", id=f"{spec.id}-more"))
    assert len(registry) == 2
