"""`Registry`: the specs that are known. It records; it neither selects nor applies."""

from collections.abc import Iterable, Iterator

from ._companions import CompanionRule
from ._errors import DuplicateSpecError, UnknownSpecError
from ._fingerprint import Fingerprints
from ._spec import PatchingSpec
from ._versions import ranges_overlap


class Registry:
    """An ordered set of specs in which no target has two specs for the same versions.

    Args:
        specs: added in order.
        fingerprints: the sources that the specs were proved against; None knows none, and then none is drift.
        companions: which versions of other packages go with which; a scope warns where they do not.

    Raises:
        DuplicateSpecError: see `add`.
    """

    def __init__(
        self,
        specs: Iterable[PatchingSpec] = (),
        *,
        fingerprints: Fingerprints | None = None,
        companions: Iterable[CompanionRule] = (),
    ) -> None:
        self._specs: list[PatchingSpec] = []
        self._by_name: dict[str, list[PatchingSpec]] = {}
        self._packages: dict[str, None] = {}
        self.fingerprints = fingerprints
        self.companions = tuple(companions)
        for spec in specs:
            self.add(spec)

    def add(self, spec: PatchingSpec) -> None:
        """Add `spec`.

        Raises:
            DuplicateSpecError: another spec has the same id, or the same target, for some of the same versions. The
                message names both definers.
        """
        # An id has no colon, and every target has one.
        names = (spec.id, *spec.targets)
        for other in {id(item): item for name in names for item in self._by_name.get(name, ())}.values():
            if ranges_overlap(spec.ranges, other.ranges):
                shared = set(spec.targets) & set(other.targets)
                raise DuplicateSpecError(
                    _clash(spec, other, "id" if spec.id == other.id else f"target {min(shared)!r}")
                )
        for name in names:
            self._by_name.setdefault(name, []).append(spec)
        self._packages.update(dict.fromkeys(item.package for item in spec.ranges))
        self._specs.append(spec)

    def ids(self) -> list[str]:
        """Return each id once, in order."""
        return list(dict.fromkeys(spec.id for spec in self._specs))

    def packages(self) -> list[str]:
        """Return the packages that some spec has a range of."""
        return list(self._packages)

    def variants(self, spec_id: str) -> list[PatchingSpec]:
        """Return the specs that share `spec_id`.

        Raises:
            UnknownSpecError: there is none; the message lists the known ids.
        """
        found = [spec for spec in self._specs if spec.id == spec_id]
        if not found:
            known = ", ".join(self.ids()) or "none"
            raise UnknownSpecError(f"no spec has the id {spec_id!r}; known ids: {known}")
        return found

    def __iter__(self) -> Iterator[PatchingSpec]:
        return iter(tuple(self._specs))

    def __len__(self) -> int:
        return len(self._specs)


def _clash(spec: PatchingSpec, other: PatchingSpec, what: str) -> str:
    return (
        f"specs {other.id!r} ({', '.join(other.requires)}; {other.definer}) and {spec.id!r} "
        f"({', '.join(spec.requires)}; {spec.definer}) have the same {what} for some of the same versions; "
        "make their ranges disjoint"
    )
