"""What `drift` would have said of each past release, knowing only what was known at the release before.

What broke is read from the ranges of the specs, whose ends were found by running exports on both sides. Where the next
variant of a spec puts the same replacement on the same targets, nothing had to be done, so nothing broke.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from exportcompat._drift import Finding, Survey, findings, for_version
from exportcompat.registry import PatchingSpec, Target


@dataclass(frozen=True)
class Event:
    """What became of one spec, or of a name that our own code goes by, in one release.

    Attributes:
        release: the release.
        spec_id: the spec, or the name.
        did_break: its range ends before the release, and what comes after it is something else; or the code had to
            learn of it.
        alarms: what `drift` says that needs a look.
    """

    release: str
    spec_id: str
    did_break: bool
    alarms: tuple[Finding, ...] = ()

    @property
    def kind(self) -> str:
        """`announced`, `missed` or `false`."""
        return ("announced" if self.alarms else "missed") if self.did_break else "false"


class Past:
    """What was known before a release, from the releases until then.

    Args:
        surveys: those releases, oldest first.
    """

    def __init__(self, surveys: Sequence[Survey]) -> None:
        self._surveys = surveys

    def fingerprints(self, spec: PatchingSpec, target: Target) -> Collection[str]:
        places = (survey.places.get((spec, target.text)) for survey in self._surveys if _is_for(spec, survey))
        return {place.fingerprint for place in places if place is not None}

    def modules(self, spec: PatchingSpec) -> int:
        last = self._surveys[-1].places
        return sum(last[spec, target.text].modules for target in spec.places if (spec, target.text) in last)

    def occurrences(self, spec_id: str) -> Collection[str] | None:
        found = [survey.occurrences.get(spec_id, frozenset()) for survey in self._surveys]
        return frozenset().union(*found)


def backtest(surveys: Sequence[Survey], specs: Iterable[PatchingSpec]) -> Iterator[Event]:
    """Yield what broke in each release but the first, and what did not and was announced all the same.

    Args:
        surveys: all releases of a package, oldest first.
        specs: all specs.
    """
    specs = list(specs)
    for number, survey in enumerate(surveys[1:], start=1):
        past = surveys[:number]
        active = for_version(specs, survey.package, past[-1].version)
        found = [item for item in findings(survey, active, Past(past), lambda _: "") if item.is_alarm]
        for spec in active:
            own = {target.text for target in spec.places} | {", ".join(target.text for target in spec.places)}
            # What was not there before cannot go.
            alarms = tuple(item for item in found if item.target in own and not _was_absent(item, spec, past[-1]))
            did_break = not _is_for(spec, survey) and not _goes_on(spec, specs, survey)
            if did_break or alarms:
                yield Event(survey.version, spec.id, did_break, alarms)
        new = [item for item in found if item.state == "new"]
        yield from (Event(survey.version, item.spec_id, did_break=False, alarms=(item,)) for item in new)


def begun(surveys: Sequence[Survey], specs: Iterable[PatchingSpec]) -> Iterator[tuple[str, str]]:
    """Yield the release and the id of each defect that began where no spec had replaced anything."""
    specs = list(specs)
    for before, survey in pairwise(surveys):
        known = {spec.id for spec in for_version(specs, survey.package, before.version)}
        now = {spec.id for spec in for_version(specs, survey.package, survey.version)}
        yield from ((survey.version, spec_id) for spec_id in sorted(now - known))


def to_markdown(of_specs: Sequence[Event], new: Sequence[tuple[str, str]], of_names: Sequence[Event]) -> str:
    """Return the tables for the docs.

    Args:
        of_specs: what became of specs.
        new: the release and the id of each defect that began where no spec had replaced anything.
        of_names: what became of names that our own code goes by.
    """
    began = ", ".join(f"`{spec_id}` ({release})" for release, spec_id in new)
    # Without the names, what the code had to learn of them was announced by nothing.
    unannounced = [replace(event, alarms=()) for event in of_names if event.did_break]
    return "\n".join(
        [
            "| what is looked at | announced | missed | false alarms | of all alarms |",
            "|---|---|---|---|---|",
            _sums("what patches replace", [*of_specs, *unannounced]),
            _sums("and the names that our code goes by", [*of_specs, *of_names]),
            _sums("the names alone", of_names),
            "",
            f"Defects that began in code that no spec had replaced: {len(new)} ({began}).",
            "",
            *_table("spec", of_specs),
            "",
            *_table("name", of_names),
        ]
    )


def _sums(what: str, events: Sequence[Event]) -> str:
    announced, missed, false = (
        sum(event.kind == kind for event in events) for kind in ("announced", "missed", "false")
    )
    return f"| {what} | {announced} | {missed} | {false} | {false / max(1, announced + false):.0%} |"


def _table(what: str, events: Sequence[Event]) -> list[str]:
    rows = [f"| {item.release} | `{item.spec_id}` | {item.kind} | {_said(item)} |" for item in events]
    return [f"| release | {what} | | what `drift` says |", "|---|---|---|---|", *rows]


def _said(event: Event) -> str:
    return "; ".join(dict.fromkeys(f"{item.state}: `{item.target}`" for item in event.alarms))


def _is_for(spec: PatchingSpec, survey: Survey) -> bool:
    return bool(for_version([spec], survey.package, survey.version))


def _goes_on(spec: PatchingSpec, specs: Sequence[PatchingSpec], survey: Survey) -> bool:
    same = (other for other in specs if other.id == spec.id and other.replacement == spec.replacement)
    return any(set(spec.targets) <= set(other.targets) and _is_for(other, survey) for other in same)


def _was_absent(finding: Finding, spec: PatchingSpec, before: Survey) -> bool:
    place = before.places.get((spec, finding.target))
    return finding.state == "gone" and place is not None and not place.fingerprint
