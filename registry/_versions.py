"""Version ranges that compare by release segment, and what is installed.

Plain `packaging` puts `2.9.0.dev20250801` in neither `<2.9` nor `>=2.9`, so two adjoining ranges leave a hole for
every nightly build. Here a version counts as the release that it leads to: `2.9.0.dev1+cu128`, `2.9.0a0+git`,
`2.9.0rc1` and `2.9.0+cpu` are all 2.9.0. A nightly build that was cut before a late upstream fix therefore counts
as fixed.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ._errors import SpecError
from ._packages import builds_of, module_of

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(.*?)\s*")
_EXAMPLE = 'write a requirement such as "transformers>=4.56,<5.24"'


@dataclass(frozen=True)
class Range:
    """The versions of one package that a spec is for."""

    package: str
    specifiers: SpecifierSet

    def __str__(self) -> str:
        return f"{self.package}{self.text}" if self.specifiers else self.package

    @cached_property
    def text(self) -> str:
        """The specifiers, lower bounds first, as people write them."""
        parts = sorted(self.specifiers, key=lambda part: (part.operator.startswith(("<", "!")), str(part)))
        return ",".join(map(str, parts)) or "any version"

    def admits(self, version: Version) -> bool:
        """Say whether the release that `version` leads to is in this range."""
        return self._holds(_release(version))

    def overlaps(self, other: "Range") -> bool:
        """Say whether some release is in both ranges (packages are not compared)."""
        points = _witnesses([*self._bounds, *other._bounds])
        return any(self._holds(point) and other._holds(point) for point in points)

    def _holds(self, release: "_Release") -> bool:
        return all(_COMPARISONS[operator](release, bound, prefix) for operator, bound, prefix in self._parts)

    @cached_property
    def _bounds(self) -> list["_Release"]:
        return list(_bounds(self.specifiers))

    @cached_property
    def _parts(self) -> list[tuple[str, "_Release", "_Release"]]:
        # `SpecifierSet.contains` takes 10 us for each range, and a scope asks for hundreds of them.
        return [_part(item.operator, item.version) for item in self.specifiers]


_Release = tuple[int, ...]
"""The epoch and the numbers of a release, without zeros at the end."""

_Comparison = Callable[[_Release, _Release, _Release], bool]

_COMPARISONS: dict[str, _Comparison] = {
    ">=": lambda release, bound, prefix: release >= bound,
    "<=": lambda release, bound, prefix: release <= bound,
    ">": lambda release, bound, prefix: release > bound,
    "<": lambda release, bound, prefix: release < bound,
    "==": lambda release, bound, prefix: release == bound,
    "!=": lambda release, bound, prefix: release != bound,
    "==.*": lambda release, bound, prefix: _begins(release, prefix),
    "!=.*": lambda release, bound, prefix: not _begins(release, prefix),
    "~=": lambda release, bound, prefix: release >= bound and _begins(release, prefix),
}


def _part(operator: str, text: str) -> tuple[str, _Release, _Release]:
    bare = text.removesuffix(".*")
    numbers = Version(bare).release
    prefix = (0, *(numbers[:-1] if operator == "~=" else numbers))
    return operator + text[len(bare) :], _release(Version(bare)), prefix


def _begins(release: _Release, prefix: _Release) -> bool:
    return (*release, *([0] * len(prefix)))[: len(prefix)] == prefix


def _release(version: Version) -> _Release:
    return _stripped((version.epoch, *version.release))


def _stripped(numbers: _Release) -> _Release:
    end = len(numbers)
    while end > 1 and not numbers[end - 1]:
        end -= 1
    return numbers[:end]


@lru_cache(maxsize=256)
def release_of(version: Version) -> Version:
    """Return `version` without its pre-, post-, dev- and local parts.

    >>> release_of(Version("2.9.0.dev20250801+cu128"))
    <Version('2.9.0')>
    """
    return Version(version.base_version)


def parse_range(text: str) -> Range:
    """Parse an ordinary requirement string into a `Range`.

    Raises:
        SpecError: `text` is not a requirement, or it uses extras, markers, urls, `===`, or a bound that is not a
            plain release.
    """
    if not isinstance(text, str):
        raise SpecError(f"{text!r} is not a version range (it is no text); {_EXAMPLE}")
    return _parsed(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Range:
    # packaging.requirements would parse extras, markers and urls too, which are refused, and costs 12 ms to import.
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        raise SpecError(f"{text!r} is not a version range (it does not begin with a package); {_EXAMPLE}")
    name, bounds = match.groups()
    if any(mark in bounds for mark in "[;@"):
        raise SpecError(f"{text!r} has extras, a marker or a url, which a version range cannot have; {_EXAMPLE}")
    try:
        specifiers = SpecifierSet(bounds)
    except InvalidSpecifier as error:
        raise SpecError(f"{text!r} is not a version range ({_first_line(error)}); {_EXAMPLE}") from None
    for part in specifiers:
        _check_bound(text, part.operator, part.version)
    return Range(canonicalize_name(name), specifiers)


def parse_version(text: str, package: str) -> Version:
    """Parse the version of `package`.

    Raises:
        SpecError: `text` is not a version.
    """
    try:
        return _version(text)
    except (InvalidVersion, TypeError):
        raise SpecError(f"{text!r} is not a version of {package}; write one such as 4.57.6") from None


@lru_cache(maxsize=256)
def _version(text: str) -> Version:
    return Version(text)


def installed_version(package: str) -> Version | None:
    """Return the version of `package` that this process has loaded or would load; None if there is none."""
    module = sys.modules.get(module_of(package))
    loaded = getattr(module, "__version__", None)
    return _installed(package) if loaded is None else parse_version(str(loaded), package)


class Environment(Mapping[str, "Version | None"]):
    """Versions by package name: those that were given, and for all others what is installed."""

    def __init__(self, given: Mapping[str, str | None] | None = None) -> None:
        self._found = {
            str(canonicalize_name(name)): None if text is None else parse_version(text, name)
            for name, text in (given or {}).items()
        }

    def __getitem__(self, package: str) -> Version | None:
        if package not in self._found:
            self._found[package] = installed_version(package)
        return self._found[package]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def ranges_overlap(left: Iterable[Range], right: Iterable[Range]) -> bool:
    """Say whether some set of versions is admitted by both sets of ranges."""
    others = {item.package: item for item in right}
    return all(item.overlaps(others[item.package]) for item in left if item.package in others)


def _check_bound(text: str, operator: str, version: str) -> None:
    bare = version.removesuffix(".*")
    if operator == "===" or str(Version(bare)) != ".".join(map(str, Version(bare).release)):
        raise SpecError(
            f"{text!r} has the bound {operator}{version}; versions compare by release, so a bound is a plain release "
            f"and not a pre-release, post-release, local version, epoch or '==='; {_EXAMPLE}"
        )


def _bounds(specifiers: SpecifierSet) -> Iterator[_Release]:
    for part in specifiers:
        numbers = (0, *Version(part.version.removesuffix(".*")).release)
        yield _stripped(numbers)
        # `~=` and `.*` end at the next prefix.
        for length in (len(numbers), max(len(numbers) - 1, 2)):
            yield (*numbers[: length - 1], numbers[length - 1] + 1)


def _witnesses(bounds: Iterable[_Release]) -> Iterator[_Release]:
    """Yield one release in every region that the bounds cut the versions into."""
    yield (0,)
    for bound in set(bounds):
        yield bound
        yield (*bound, 0, 0, 0, 0, 0, 1)


@cache
def _installed(package: str) -> Version | None:
    # The import costs 10 ms, and nothing needs it where the package is loaded already.
    from importlib import metadata

    for name in builds_of(package):
        try:
            return parse_version(metadata.version(name), package)
        except metadata.PackageNotFoundError:
            continue
    return None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
