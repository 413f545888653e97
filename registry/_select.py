"""Selection: which specs apply to which versions, by data alone."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ._errors import NotApplicableError, SpecError
from ._packages import PACKAGES
from ._registry import Registry
from ._similar import did_you_mean
from ._spec import PatchingSpec
from ._table import html_table, text_table
from ._versions import Environment, Range


@dataclass(frozen=True)
class Decision:
    """Whether one spec applies, and why.

    Attributes:
        spec: the spec.
        applies: True if every requirement holds.
        reason: the requirement that fails, or those that hold.
        asked: the caller named the id.
    """

    spec: PatchingSpec
    applies: bool
    reason: str
    asked: bool = False


class Plan(list[Decision]):
    """A decision for each spec. It prints as a table of those that apply, in a notebook too."""

    @property
    def applying(self) -> list[Decision]:
        """The decisions by which a spec applies."""
        return [item for item in self if item.applies]

    @property
    def summary(self) -> str:
        """One line: how many specs apply."""
        return f"{len(self.applying)} of {len({item.spec.id for item in self})} specs apply"

    def __str__(self) -> str:
        return "\n".join([*text_table(self._rows()), self.summary])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self._rows(), title=self.summary)

    def _rows(self) -> list[tuple[str, ...]]:
        found = [(item.spec.id, "; ".join(item.spec.requires), item.spec.reason) for item in self.applying]
        return [("ID", "VERSIONS", "WHAT GOES WRONG"), *found]


def plan(
    registry: Registry,
    environment: Environment,
    *,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
) -> Plan:
    """Decide for every spec.

    Args:
        registry: the specs.
        environment: the versions.
        include: ids; only these apply. None means all.
        exclude: ids; these do not apply.

    Raises:
        SpecError: a version is given of a package that no spec asks for.
        UnknownSpecError: an id in `include` or `exclude` is unknown.
        NotApplicableError: no variant of an id in `include` is for these versions.
    """
    _check_packages(registry, environment)
    for spec_id in (*ids_of(include), *ids_of(exclude)):
        registry.variants(spec_id)
    decisions = [_decide(spec, environment, include, exclude) for spec in registry]
    for spec_id in ids_of(include):
        _require_one(spec_id, [item for item in decisions if item.spec.id == spec_id])
    return Plan(decisions)


def _check_packages(registry: Registry, environment: Environment) -> None:
    """Refuse versions of packages that nobody asks for: their names are misspelt."""
    known = {*PACKAGES, *(item.package for spec in registry for item in spec.ranges)}
    for name in environment:
        if name not in known:
            hint = did_you_mean(name, known) or f"; packages: {', '.join(sorted(known))}"
            raise SpecError(f"a version of {name!r} is given, and no spec asks for that package{hint}")


def ids_of(ids: Collection[str] | None) -> Iterable[str]:
    """Return the ids that a caller has given, one of which may stand alone."""
    return (ids,) if isinstance(ids, str) else ids or ()


def _decide(
    spec: PatchingSpec, environment: Environment, include: Collection[str] | None, exclude: Collection[str]
) -> Decision:
    asked = include is not None and spec.id in ids_of(include)
    if include is not None and not asked:
        return Decision(spec, False, "not among the ids that the caller included")
    if spec.id in ids_of(exclude):
        return Decision(spec, False, "excluded by the caller", asked)
    findings = [_finding(item, environment) for item in spec.ranges]
    conflicts = [text for holds, text in findings if not holds]
    return Decision(spec, not conflicts, "; ".join(conflicts or [text for _, text in findings]), asked)


def _finding(item: Range, environment: Environment) -> tuple[bool, str]:
    version = environment[item.package]
    if version is None:
        return False, f"{item.package} is not installed (wanted {item.text})"
    holds = item.admits(version)
    return holds, f"{item.package} {version} is {'in' if holds else 'not in'} {item.text}"


def _require_one(spec_id: str, decisions: list[Decision]) -> None:
    if not any(item.applies for item in decisions):
        reasons = "; ".join(item.reason for item in decisions)
        raise NotApplicableError(
            f"spec {spec_id!r} was asked for and cannot apply: {reasons}. "
            "Leave the id out, or install versions that it is for"
        )
