"""A spec that is malformed cannot be built, and the error says what to write."""

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import pytest

from exportcompat.registry import PatchingSpec, SpecError

MakeSpec = Callable[..., PatchingSpec]

MALFORMED: list[tuple[str, Any, str]] = [
    ("id", "", "write lower-case words joined by hyphens, such as 'rope-switch'"),
    ("id", "Rope-Switch", "write lower-case words joined by hyphens"),
    ("id", "rope_switch", "write lower-case words joined by hyphens"),
    ("id", "-rope", "write lower-case words joined by hyphens"),
    ("id", 7, "write lower-case words joined by hyphens"),
    ("targets", "fakepkg:f", "targets is 'fakepkg:f'; wanted a tuple of strings"),
    ("targets", ["fakepkg:f"], "targets is ['fakepkg:f']; wanted a tuple of strings"),
    ("targets", (1,), "targets is (1,); wanted a tuple of strings"),
    ("targets", (), "targets is (); wanted at least one"),
    ("targets", ("fakepkg.f",), "target 'fakepkg.f' has no known form; write 'pkg.mod:Class.method'"),
    ("targets", ("fakepkg:f", "fakepkg:f"), "wanted 'fakepkg:f' once"),
    ("replacement", "fakefactories.tagged", 'wanted "package.module:factory"'),
    ("replacement", "fakefactories:a.b", 'wanted "package.module:factory"'),
    ("replacement", 7, 'wanted "package.module:factory"'),
    ("requires", "fakepkg>=1", "requires is 'fakepkg>=1'; wanted a tuple of strings"),
    ("requires", (), "requires is (); wanted at least one"),
    ("requires", ("fakepkg>=1rc1",), "so a bound is a plain release"),
    ("requires", ("fakepkg>=1", "Fakepkg<3"), "wanted one string for fakepkg, with all its bounds"),
    ("reason", " ", "wanted a sentence that says what goes wrong without the spec"),
    ("reason", None, "wanted a sentence that says what goes wrong without the spec"),
    ("upstream", "https://example.org", "wanted a tuple of strings"),
    ("upstream", ("example.org",), "upstream is 'example.org'; wanted links that begin with https://"),
    ("proofs", "case", "wanted a tuple of strings"),
    ("proofs", None, "wanted a tuple of strings"),
    ("kind", "patch", "wanted 'wrap' or 'replace' or 'pytree'"),
    ("kind", "pytree", "wanted 'pytree' exactly when every target is a pytree(...)"),
    ("targets", ("pytree(fakepkg:Thing)",), "wanted 'pytree' exactly when every target is a pytree(...)"),
]


@pytest.mark.parametrize(("name", "value", "message"), MALFORMED)
def test_malformed_field(make_spec: MakeSpec, name: str, value: Any, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        make_spec(**{name: value})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, value, _ in MALFORMED if name not in ("id", "requires")]
)
def test_message_names_the_spec(make_spec: MakeSpec, name: str, value: Any) -> None:
    with pytest.raises(SpecError, match="spec 'fake-spec'"):
        make_spec(**{name: value})


def test_message_about_a_range_names_the_range(make_spec: MakeSpec) -> None:
    with pytest.raises(SpecError, match="'fakepkg>=1rc1' has the bound"):
        make_spec(requires=("fakepkg>=1rc1",))


def test_mixed_kinds_of_targets_are_refused(make_spec: MakeSpec) -> None:
    with pytest.raises(SpecError, match="exactly when every target"):
        make_spec("fakepkg:f", "pytree(fakepkg:Thing)", kind="pytree")


def test_fields_are_named() -> None:
    with pytest.raises(TypeError):
        PatchingSpec("fake-spec", ("fakepkg:f",))  # type: ignore[call-arg]


def test_a_valid_spec_is_frozen(make_spec: MakeSpec) -> None:
    spec = make_spec()
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.id = "other"  # type: ignore[misc]


def test_a_valid_spec_has_parsed_targets_and_ranges(make_spec: MakeSpec) -> None:
    spec = make_spec("fakepkg:f", "fakepkg:TABLE[item]", requires=("fakepkg>=1,<2", "torch>=2.6"))
    assert [place.text for place in spec.places] == list(spec.targets)
    assert [str(item) for item in spec.ranges] == ["fakepkg>=1,<2", "torch>=2.6"]


def test_a_pytree_spec_is_valid(make_spec: MakeSpec) -> None:
    assert make_spec("pytree(fakepkg:Thing)", kind="pytree").places[0].is_pytree


def test_definer_is_the_file_and_line_of_the_definition() -> None:
    line = sys._getframe().f_lineno + 1
    spec = PatchingSpec(
        id="fake-spec",
        targets=("fakepkg:f",),
        replacement="fakefactories:tagged",
        requires=("fakepkg>=1",),
        reason="Something goes wrong.",
        upstream=(),
        proofs=(),
        kind="wrap",
    )
    assert spec.definer == f"{__file__}:{line}"


def test_definer_can_be_given_and_does_not_count_for_equality(make_spec: MakeSpec) -> None:
    one, two = make_spec(definer="a.py:1"), make_spec(definer="b.py:2")
    assert one.definer == "a.py:1"
    assert one == two
    assert hash(one) == hash(two)
