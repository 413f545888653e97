"""`PatchReport`: what really happened inside one scope."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._assumptions import Assumption
from ._engine import Patch
from ._table import html_table, text_table


@dataclass(frozen=True)
class Drift:
    """A target that is not what its spec was proved against.

    Attributes:
        spec_id: the spec.
        target: the target.
        what: what differs, and what is known.
        applied: the spec was applied all the same.
    """

    spec_id: str
    target: str
    what: str
    applied: bool


class Use:
    """One applied target and the calls that its replacement had while the scope was open."""

    __slots__ = ("_after", "_before", "_usage", "target")

    def __init__(self, patch: Patch) -> None:
        self.target = patch.slot.label
        self._usage = patch.usage
        self._before = patch.usage.hits
        self._after: int | None = None

    @property
    def hits(self) -> int:
        """Calls since the scope began: those of all threads, some of which may be lost when they call at once."""
        return max((self._usage.hits if self._after is None else self._after) - self._before, 0)

    def freeze(self) -> None:
        """Stop counting."""
        self._after = self._usage.hits


@dataclass(repr=False)
class PatchReport:
    """What was applied, what was not and why, and what was used. It prints as a table, in a notebook too.

    Attributes:
        versions: version by package, None where it is not installed.
        applied: for each spec id, its replaced targets with their calls.
        skipped: for each spec id that was not applied, the reason.
        pending: for each spec id, targets in modules that were not imported.
        unchanged: for each spec id, targets that its factory has left as they are, and why.
        drifted: targets that differ from what was proved.
        mismatched: installed packages that do not go together, a sentence for each.
        assumptions: what the graphs that were captured take for granted of dynamic sizes.
        changed: specs that are not as their package has them, by id, with what `override` and `narrow` did.
    """

    versions: dict[str, str | None] = field(default_factory=dict)
    applied: dict[str, list[Use]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    pending: dict[str, list[str]] = field(default_factory=dict)
    unchanged: dict[str, dict[str, str]] = field(default_factory=dict)
    drifted: list[Drift] = field(default_factory=list)
    mismatched: list[str] = field(default_factory=list)
    assumptions: list[Assumption] = field(default_factory=list)
    changed: dict[str, str] = field(default_factory=dict)

    @property
    def hits(self) -> Mapping[str, int]:
        """Calls by spec id; 0 for a spec that was applied and never used."""
        return {spec_id: sum(use.hits for use in uses) for spec_id, uses in self.applied.items()}

    @property
    def used(self) -> list[str]:
        """Ids of the specs that were really used."""
        return [spec_id for spec_id, hits in self.hits.items() if hits]

    @property
    def summary(self) -> str:
        """One line: the versions, how many specs were applied and how many of them were used."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items() if version is not None)
        return f"{len(self.applied)} specs applied, {len(self.used)} used{f' ({versions})' if versions else ''}"

    def __str__(self) -> str:
        return "\n".join([*(text_table(self._rows()) if self.used else ()), *self._notes(), self.summary])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self._rows(), title=self.summary, notes=self._notes())

    def _rows(self) -> list[tuple[str, ...]]:
        found = [(spec_id, str(hits), str(len(self.applied[spec_id]))) for spec_id, hits in self.hits.items() if hits]
        return [("USED", "CALLS", "TARGETS"), *found]

    def _notes(self) -> list[str]:
        drifted = [f"{item.spec_id}: {item.target} has drifted: {item.what}" for item in self.drifted]
        count = len(self.pending)
        pending = [f"{count} {'spec is' if count == 1 else 'specs are'} for modules that are not imported"]
        # A graph without a shortcut is as a rule the same, only slower.
        taken = [str(item) for item in self.assumptions if item.kind != "shortcut"]
        return [*self.mismatched, *drifted, *taken, *(pending if count else [])]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "python": ".".join(map(str, sys.version_info[:3])),
            "versions": self.versions,
            "applied": {spec_id: {use.target: use.hits for use in uses} for spec_id, uses in self.applied.items()},
            "used": self.used,
            "skipped": self.skipped,
            "pending": self.pending,
            "unchanged": self.unchanged,
            "drifted": [dict(vars(drift)) for drift in self.drifted],
            "mismatched": self.mismatched,
            "assumptions": [assumption.to_dict() for assumption in self.assumptions],
            "changed": self.changed,
        }

    def to_json(self) -> str:
        """Return the report as JSON text."""
        import json

        return json.dumps(self.to_dict(), indent=2)
