"""The ends of ranges: found by walking the releases, and proved just inside and just outside of each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.version import Version

from exportcompat.patches import default_registry
from exportcompat.registry import COMPANIONS, ExportCompatError, PatchingSpec

from ._version_axes import beside, exclusion, releases, seasons

DEFAULTS: Mapping[str, str] = {"torch": "2.13.0", "transformers": "5.23.0"}
"""The versions of the packages that are not walked."""


def variants(spec_id: str) -> list[PatchingSpec]:
    """Return the specs that share an id.

    Raises:
        ExportCompatError: there is none; the message lists the ids.
    """
    found = [spec for spec in default_registry() if spec.id == spec_id]
    if not found:
        known = ", ".join(dict.fromkeys(spec.id for spec in default_registry()))
        raise ExportCompatError(f"there is no spec {spec_id!r}; specs: {known}")
    return found


@dataclass(frozen=True)
class Boundary:
    """One end of the range of a spec.

    Attributes:
        spec_id: the spec.
        package: what is bounded.
        inside: the last release that is in the range and on which a proof can be run, seen from within.
        outside: the one behind it; None where no release is supported any more.
        others: the versions of the other packages.
        proofs: cases that need the spec at this end.
    """

    spec_id: str
    package: str
    inside: str
    outside: str | None
    others: dict[str, str]
    proofs: tuple[str, ...]

    def cells(self) -> list[tuple[str, str]]:
        """Return transformers and torch inside, then outside where there is a release."""
        found = [{**self.others, self.package: text} for text in (self.inside, self.outside) if text]
        return [(versions["transformers"], versions["torch"]) for versions in found]

    def named_proofs(self) -> Iterator[tuple[str, str]]:
        """Yield the case of each proof, and the proof as results name it."""
        yield from (recorded_proof(self.spec_id, text) for text in self.proofs)


def recorded_proof(spec_id: str, proof: str) -> tuple[str, str]:
    """Return the name of the case of a proof, and the proof as the case's result names it."""
    case, colon, sample = proof.partition(":")
    return case, f"{spec_id}{colon}{sample}"


def admits(spec: PatchingSpec, package: str, release: str) -> bool:
    """Say whether a spec is for a release of one package."""
    return all(item.admits(Version(release)) for item in spec.ranges if item.package == package)


def admits_newest(spec: PatchingSpec) -> bool:
    """Say whether a spec is for the companions of the newest season."""
    newest = list(seasons().values())[-1]
    return all(admits(spec, name, newest[name]) for name in COMPANIONS if name in newest)


def boundaries_of(spec_id: str) -> list[Boundary]:
    """Return the two ends of torch and transformers; variants of one spec that follow each other count as one range.

    Where it is for older companions than the cells have, there are none: the cells of seasons have such.
    """
    specs = [spec for spec in variants(spec_id) if admits_newest(spec)]
    packages = sorted({item.package for spec in specs for item in spec.ranges} & DEFAULTS.keys())
    return [end for package in packages for end in _boundaries(spec_id, specs, package)]


def _boundaries(spec_id: str, specs: list[PatchingSpec], package: str) -> Iterator[Boundary]:
    known = releases(package)
    is_in = [any(admits(spec, package, release) for spec in specs) for release in known]
    first, last = is_in.index(True), len(known) - 1 - is_in[::-1].index(True)
    members = known[first : last + 1]
    for ordered, behind in ((members, first - 1), (members[::-1], last + 1)):
        outside = known[behind] if 0 <= behind < len(known) else None
        inside, others, proofs = place_of(specs, package, ordered)
        yield Boundary(spec_id, package, inside, outside, others, proofs)


Place = tuple[str, dict[str, str], tuple[str, ...]]
"""A release of the package that is bounded, the version of the other package, and the proofs."""


def place_of(specs: list[PatchingSpec], package: str, ordered: Sequence[str]) -> Place:
    """Return the first place, in this order of releases, where a proof can be run; the very first if there is none."""
    provable = (place for place in _places(specs, package, ordered) if _can_run(package, *place))
    return next(provable, next(_places(specs, package, ordered)))


def _places(specs: list[PatchingSpec], package: str, ordered: Sequence[str]) -> Iterator[Place]:
    """Yield releases that are in the range, each with the usual version of the other package, then with all others."""
    for release in ordered:
        spec = next((spec for spec in specs if admits(spec, package, release)), None)
        if spec is not None:
            wanted = {**DEFAULTS, **beside(spec.id, package)}
            (other,) = (name for name in wanted if name != package)
            newest_first = releases(other)[::-1]
            # The usual version comes before all others, which stay in order.
            for text in sorted(newest_first, key=wanted[other].__ne__):
                if admits(spec, other, text):
                    yield release, {other: text}, spec.proofs


def _can_run(package: str, release: str, others: Mapping[str, str], proofs: Sequence[str]) -> bool:
    """Say whether nothing is written down against the case of some proof on these versions."""
    return any(not exclusion(text.partition(":")[0], {package: release, **others}) for text in proofs)


@lru_cache(maxsize=1)
def proofs_at_boundaries() -> Mapping[tuple[str, str], Mapping[str, Sequence[str]]]:
    """Return what is proved at the ends of all ranges: by transformers and torch, the cases and their proofs.

    A proof is the id of a spec, with a sample behind a colon where it is not the usual one. It stands once, also where
    several specs of one id end at a place.
    """
    found: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for end in (end for spec_id in default_registry().ids() for end in boundaries_of(spec_id)):
        for transformers, torch in end.cells():
            for case, proof in end.named_proofs():
                found.setdefault((transformers, torch), {}).setdefault(case, {})[proof] = None
    return {cell: {case: list(proofs) for case, proofs in cases.items()} for cell, cases in found.items()}
