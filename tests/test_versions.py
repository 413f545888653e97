"""Versions compare by release: every build falls on the side of the release that it leads to."""

from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from exportcompat.registry import Environment, SpecError, installed_version, parse_range
from exportcompat.registry._versions import parse_version, ranges_overlap, release_of

ADMITTED = [
    ("torch>=2.9", "2.9.0", True),
    ("torch>=2.9", "2.9.1", True),
    ("torch>=2.9", "2.10.0", True),
    ("torch>=2.9", "2.8.9", False),
    ("torch<2.9", "2.8.0", True),
    ("torch<2.9", "2.9.0", False),
    # A build that leads to a release counts as that release.
    ("torch>=2.9", "2.9.0rc1", True),
    ("torch<2.9", "2.9.0rc1", False),
    ("torch>=2.9", "2.9.0.dev20250801", True),
    ("torch<2.9", "2.9.0.dev20250801", False),
    ("torch>=2.9", "2.9.0.dev20250801+cu128", True),
    ("torch<2.9", "2.9.0.dev20250801+cu128", False),
    ("torch>=2.9", "2.9.0a0+git1a2b3c4", True),
    ("torch<2.9", "2.9.0a0+git1a2b3c4", False),
    ("torch>=2.9", "2.9.0+cpu", True),
    ("torch<=2.9", "2.9.0+cpu", True),
    ("torch==2.9", "2.9.0+cu128", True),
    ("torch<2.9", "2.8.0+cu128", True),
    ("torch>2.9", "2.9.0+cpu", False),
    ("torch<=2.9", "2.9.0.post1", True),
    ("torch>2.9", "2.9.0.post1", False),
    ("transformers>=5.0", "5.0.0.dev0", True),
    ("transformers<5", "5.0.0.dev0", False),
    ("transformers>=4.56,<5.0", "5.0.0rc0", False),
    ("transformers~=4.56.1", "4.56.2", True),
    ("transformers~=4.56.1", "4.57.0", False),
    ("transformers~=4.56", "4.57.0", True),
    ("transformers~=4.56", "5.0.0", False),
    ("transformers==4.56.*", "4.56.2.dev0", True),
    ("transformers==4.56.*", "4.57.0", False),
    ("transformers!=4.56.*", "4.56.2", False),
    ("transformers!=4.56.1", "4.56.2", True),
    ("transformers!=4.56.1", "4.56.1+local", False),
    ("transformers", "0.1", True),
]

MALFORMED = [
    ("transformers >= four", "is not a version range"),
    (">=4.56", "is not a version range"),
    ("", "is not a version range"),
    ("transformers[torch]>=4.56", "has extras, a marker or a url"),
    ("transformers>=4.56; python_version>'3'", "has extras, a marker or a url"),
    ("transformers @ https://example.org/t.whl", "has extras, a marker or a url"),
    ("transformers===4.56", "has the bound ===4.56"),
    ("transformers>=4.56rc1", "has the bound >=4.56rc1"),
    ("transformers>=4.56.dev0", "has the bound >=4.56.dev0"),
    ("transformers>=4.56.post1", "has the bound >=4.56.post1"),
    ("transformers==4.56+cpu", "has the bound ==4.56+cpu"),
    ("transformers>=1!4.56", "has the bound >=1!4.56"),
]

OVERLAPS = [
    ("p>=1,<2", "p>=2,<3", False),
    ("p>=1,<=2", "p>=2,<3", True),
    ("p<2", "p>2", False),
    ("p<=2", "p>2", False),
    ("p>2,<2.1", "p>=2.0.1", True),
    ("p~=1.4", "p>=2", False),
    ("p~=1.4", "p>=1.9,<2", True),
    ("p~=1.4.2", "p>=1.5", False),
    ("p~=1.4.2", "p==1.4.*", True),
    ("p==1.4.*", "p==1.5.*", False),
    ("p==1.4.*", "p>=1.4.9", True),
    ("p==1.4.*", "p<1.4", False),
    ("p==1.4", "p!=1.4", False),
    ("p==1.4.*", "p!=1.4", True),
    ("p==1.4.*", "p!=1.4.*", False),
    ("p==1.4.2", "p!=1.4.*", False),
    ("p", "p==7", True),
    ("p", "p", True),
]

RELEASES = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
SUFFIXES = st.sampled_from(
    ["", "rc1", "a0", ".dev3", ".dev20250801+cu128", "a0+git1a2b", "+cpu", ".post2", "rc1.post1.dev2"]
)


@pytest.mark.parametrize(("text", "version", "expected"), ADMITTED)
def test_admits(text: str, version: str, expected: bool) -> None:
    assert parse_range(text).admits(Version(version)) is expected


@given(bound=RELEASES, release=RELEASES, suffix=SUFFIXES)
def test_adjoining_ranges_leave_no_hole_and_do_not_overlap(bound: str, release: str, suffix: str) -> None:
    below, above = parse_range(f"p<{bound}"), parse_range(f"p>={bound}")
    version = Version(release + suffix)
    assert below.admits(version) is not above.admits(version)
    assert not below.overlaps(above)


@given(bound=RELEASES, suffix=SUFFIXES)
def test_every_build_of_a_release_is_that_release(bound: str, suffix: str) -> None:
    assert parse_range(f"p=={bound}").admits(Version(bound + suffix))


@given(
    left=st.tuples(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), RELEASES),
    right=st.tuples(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), RELEASES),
    release=RELEASES,
)
def test_a_version_in_both_ranges_means_overlap(left: tuple[str, str], right: tuple[str, str], release: str) -> None:
    one, two = parse_range("p" + "".join(left)), parse_range("p" + "".join(right))
    version = Version(release)
    if one.admits(version) and two.admits(version):
        assert one.overlaps(two)
        assert two.overlaps(one)


@pytest.mark.parametrize(("left", "right", "expected"), OVERLAPS)
def test_overlaps(left: str, right: str, expected: bool) -> None:
    one, two = parse_range(left), parse_range(right)
    assert (one.overlaps(two), two.overlaps(one)) == (expected, expected)


def test_ranges_overlap_only_where_every_shared_package_does() -> None:
    left = [parse_range("a>=1,<2"), parse_range("b>=5")]
    assert ranges_overlap(left, [parse_range("a>=1")])
    assert ranges_overlap(left, [parse_range("c>=1")])
    assert not ranges_overlap(left, [parse_range("a>=2"), parse_range("b>=5")])
    assert not ranges_overlap(left, [parse_range("a>=1"), parse_range("b<5")])


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_malformed_range(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_range(text)
    assert message in str(caught.value)
    assert repr(text) in str(caught.value)
    assert 'write a requirement such as "transformers>=4.56,<5.24"' in str(caught.value)


def test_range_text_has_lower_bounds_first() -> None:
    assert str(parse_range("p<3,!=2.1,>=1")) == "p>=1,!=2.1,<3"
    assert str(parse_range("p")) == "p"
    assert parse_range("p").text == "any version"


def test_package_names_are_the_same_however_they_are_written() -> None:
    assert parse_range("Onnx_IR>=1").package == parse_range("onnx-ir>=1").package == "onnx-ir"
    assert Environment({"Onnx_IR": "1.0"})["onnx-ir"] == Version("1.0")


@pytest.mark.parametrize("text", ["four", "", "4.57.6-bad-", "v"])
def test_malformed_version(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_version(text, "transformers")
    assert str(caught.value) == f"{text!r} is not a version of transformers; write one such as 4.57.6"


def test_release_of_drops_everything_but_the_release() -> None:
    assert str(release_of(Version("2.9.0.dev20250801+cu128"))) == "2.9.0"
    assert str(release_of(Version("2.9.0.post3"))) == "2.9.0"


def test_installed_version_is_that_of_the_loaded_module(make_module: Callable[..., ModuleType]) -> None:
    make_module("fakepkg", __version__="3.1a0+git")
    make_module("pytest", __version__="0.0.1")
    assert installed_version("fakepkg") == Version("3.1a0+git")
    assert installed_version("pytest") == Version("0.0.1")


def test_installed_version_of_a_package_that_is_not_loaded() -> None:
    assert installed_version("pip-tools-that-nobody-has") is None
    assert installed_version("pytest") == Version(pytest.__version__)
    found = installed_version("transformers")
    assert found is not None
    assert found.major in (4, 5)


def test_installed_version_that_is_none(make_module: Callable[..., ModuleType]) -> None:
    make_module("fakepkg", __version__="unknown")
    with pytest.raises(SpecError, match="'unknown' is not a version of fakepkg"):
        installed_version("fakepkg")


def test_environment_prefers_what_is_given(make_module: Callable[..., ModuleType]) -> None:
    make_module("fakepkg")
    environment = Environment({"fakepkg": "9.9", "torch": None})
    assert environment["fakepkg"] == Version("9.9")
    assert environment["torch"] is None
    assert environment["pytest"] == Version(pytest.__version__)
    assert sorted(environment) == ["fakepkg", "pytest", "torch"]
    assert len(environment) == 3


def test_environment_refuses_a_malformed_version() -> None:
    with pytest.raises(SpecError, match="'newest' is not a version of torch"):
        Environment({"torch": "newest"})
