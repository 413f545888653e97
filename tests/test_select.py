"""The plan: which specs apply, by data alone, each with a reason."""

from collections.abc import Callable

import pytest

from exportcompat import plan as public_plan
from exportcompat.registry import (
    Decision,
    Environment,
    NotApplicableError,
    PatchingSpec,
    Registry,
    UnknownSpecError,
    plan,
)

MakeSpec = Callable[..., PatchingSpec]


@pytest.fixture
def registry(make_spec: MakeSpec) -> Registry:
    """Return a registry with two variants of `one`, and `two`."""
    return Registry(
        [
            make_spec("fakepkg:f", id="one", requires=("fakepkg<2",)),
            make_spec("fakepkg:f", id="one", requires=("fakepkg>=2,<3",)),
            make_spec("fakepkg:g", id="two", requires=("fakepkg>=1", "otherpkg>=5")),
        ]
    )


def facts(decisions: list[Decision]) -> list[tuple[str, bool, str]]:
    """Return what a decision says besides its spec."""
    return [(item.spec.id, item.applies, item.reason) for item in decisions]


def test_each_decision_has_a_reason(registry: Registry) -> None:
    found = plan(registry, Environment({"fakepkg": "1.5", "otherpkg": "5.0"}))
    assert facts(found) == [
        ("one", True, "fakepkg 1.5 is in <2"),
        ("one", False, "fakepkg 1.5 is not in >=2,<3"),
        ("two", True, "fakepkg 1.5 is in >=1; otherpkg 5.0 is in >=5"),
    ]


def test_the_reason_is_what_does_not_hold(registry: Registry) -> None:
    found = plan(registry, Environment({"fakepkg": "0.1", "otherpkg": None}))
    assert found[2].reason == "fakepkg 0.1 is not in >=1; otherpkg is not installed (wanted >=5)"
    found = plan(registry, Environment({"fakepkg": "1.0", "otherpkg": None}))
    assert facts(found)[2] == ("two", False, "otherpkg is not installed (wanted >=5)")


def test_a_range_without_bounds(make_spec: MakeSpec) -> None:
    registry = Registry([make_spec(requires=("fakepkg",))])
    assert plan(registry, Environment({"fakepkg": "1"}))[0].reason == "fakepkg 1 is in any version"
    assert plan(registry, Environment({"fakepkg": None}))[0].applies is False


def test_include_leaves_out_all_others(registry: Registry) -> None:
    found = plan(registry, Environment({"fakepkg": "1.5", "otherpkg": "5"}), include=["one"])
    assert [(item.applies, item.asked) for item in found] == [(True, True), (False, True), (False, False)]
    assert found[2].reason == "not among the ids that the caller included"


def test_include_of_nothing_applies_nothing(registry: Registry) -> None:
    found = plan(registry, Environment({"fakepkg": "1.5", "otherpkg": "5"}), include=[])
    assert not any(item.applies for item in found)


def test_exclude(registry: Registry) -> None:
    found = plan(registry, Environment({"fakepkg": "1.5", "otherpkg": "5"}), exclude={"one"})
    assert [item.applies for item in found] == [False, False, True]
    assert found[0].reason == "excluded by the caller"


@pytest.mark.parametrize("name", ["include", "exclude"])
def test_a_text_is_one_id(registry: Registry, name: str) -> None:
    environment = Environment({"fakepkg": "1.5", "otherpkg": "5"})
    as_text, as_list = plan(registry, environment, **{name: "two"}), plan(registry, environment, **{name: ["two"]})
    assert as_text == as_list


@pytest.mark.parametrize("name", ["include", "exclude"])
@pytest.mark.parametrize("ids", ["on", ["one", "three"]])
def test_an_unknown_id(registry: Registry, name: str, ids: str | list[str]) -> None:
    with pytest.raises(UnknownSpecError, match="known ids: one, two|did you mean 'one'"):
        plan(registry, Environment({"fakepkg": "1.5"}), **{name: ids})


def test_an_id_that_the_caller_names_has_to_apply(registry: Registry) -> None:
    with pytest.raises(NotApplicableError) as caught:
        plan(registry, Environment({"fakepkg": "3.0"}), include=["one"])
    assert str(caught.value) == (
        "spec 'one' was asked for and cannot apply: fakepkg 3.0 is not in <2; fakepkg 3.0 is not in >=2,<3. "
        "Leave the id out, or install versions that it is for"
    )


def test_an_id_that_is_included_and_excluded(registry: Registry) -> None:
    with pytest.raises(NotApplicableError, match="excluded by the caller"):
        plan(registry, Environment({"fakepkg": "1.0"}), include=["one"], exclude=["one"])


def test_the_public_plan_needs_nothing_installed(registry: Registry) -> None:
    found = public_plan({"fakepkg": "2.5", "otherpkg": "4"}, registry=registry)
    assert [item.applies for item in found] == [False, True, False]


def test_the_default_registry_can_be_planned_for_any_versions() -> None:
    found = public_plan({"torch": None, "transformers": None})
    assert found
    assert all("is not installed" in item.reason and not item.applies for item in found)
