"""A registry holds no two specs that would write the same place for the same versions."""

from collections.abc import Callable

import pytest

from exportcompat.registry import DuplicateSpecError, PatchingSpec, Registry, UnknownSpecError

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


def test_iteration_is_over_a_copy(make_spec: MakeSpec) -> None:
    registry = Registry([make_spec()])
    for spec in registry:
        registry.add(make_spec("fakepkg:g", id=f"{spec.id}-more"))
    assert len(registry) == 2
