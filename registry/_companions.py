"""Which versions of a package go with which of the others, as data, and what is said where they do not."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from packaging.version import Version

from ._errors import CompanionError
from ._versions import Range, parse_range


@dataclass(frozen=True)
class CompanionRule:
    """The versions of one package that can be used beside certain versions of others.

    Attributes:
        wanted: the package with its versions, as a requirement string, such as `"protobuf<7"`.
        when: requirement strings; the rule counts where all of them hold. A package without bounds has to be there.
        why: what goes wrong with other versions.

    Raises:
        SpecError: a requirement is malformed.
    """

    wanted: str
    when: tuple[str, ...]
    why: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "_wanted", parse_range(self.wanted))
        object.__setattr__(self, "_when", tuple(parse_range(text) for text in self.when))

    @property
    def range(self) -> Range:
        """The parsed `wanted`."""
        return self._wanted  # type: ignore[attr-defined,no-any-return]

    @property
    def conditions(self) -> tuple[Range, ...]:
        """The parsed `when`."""
        return self._when  # type: ignore[attr-defined,no-any-return]


def mismatches(rules: Iterable[CompanionRule], environment: Mapping[str, Version | None]) -> Iterator[str]:
    """Yield one sentence for each rule that is broken: the package, wanted, found, why, and what to install.

    A package that is not installed breaks no rule: whoever needs it says so.

    Args:
        rules: what goes with what.
        environment: versions by package.
    """
    for rule in rules:
        found = environment[rule.range.package]
        if found is None or rule.range.admits(found) or not all(_holds(item, environment) for item in rule.conditions):
            continue
        beside = ", ".join(f"{item.package} {environment[item.package]}" for item in rule.conditions)
        yield (
            f"{rule.range.package} {found} does not go with {beside}: wanted {rule.range}, because {rule.why}. "
            f"Run: pip install '{rule.range}'"
        )


def require_companions(rules: Iterable[CompanionRule], environment: Mapping[str, Version | None]) -> None:
    """Check that what is installed goes together.

    Raises:
        CompanionError: something does not.
    """
    if found := list(mismatches(rules, environment)):
        raise CompanionError("; ".join(found))


def _holds(item: Range, environment: Mapping[str, Version | None]) -> bool:
    version = environment[item.package]
    return version is not None and item.admits(version)
