"""The ends of ranges: found by walking the releases, and proved just inside and just outside of each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from packaging.version import Version

from exportcompat.registry import PatchingSpec

from ._axes import releases
from ._probes import DEFAULTS, Answer, Probes, variants


@dataclass(frozen=True)
class End:
    """One end of the range of a spec.

    Attributes:
        spec_id: the spec.
        package: what is bounded.
        inside: the last release that is in the range, seen from within.
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


def admits(spec: PatchingSpec, package: str, release: str) -> bool:
    """Say whether a spec is for a release of one package."""
    return all(item.admits(Version(release)) for item in spec.ranges if item.package == package)


def ends_of(spec_id: str) -> list[End]:
    """Return the two ends of each bounded package; variants of one spec that follow each other count as one range."""
    specs = variants(spec_id)
    packages = sorted({item.package for spec in specs for item in spec.ranges})
    return [end for package in packages for end in _ends(spec_id, specs, package)]


def _ends(spec_id: str, specs: list[PatchingSpec], package: str) -> Iterator[End]:
    known = releases(package)
    is_in = [any(admits(spec, package, release) for spec in specs) for release in known]
    first, last = is_in.index(True), len(known) - 1 - is_in[::-1].index(True)
    for index, behind in ((first, first - 1), (last, last + 1)):
        outside = known[behind] if 0 <= behind < len(known) else None
        yield End(spec_id, package, known[index], outside, *_beside(specs, package, known[index]))


def _beside(specs: list[PatchingSpec], package: str, release: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return versions of the other packages that the spec is for, the default where it can be, and its proofs."""
    spec = next(spec for spec in specs if admits(spec, package, release))
    others = {}
    for name, usual in DEFAULTS.items():
        if name != package:
            fitting = [text for text in releases(name) if admits(spec, name, text)]
            others[name] = usual if usual in fitting else fitting[-1]
    return others, spec.proofs


def holds(answer: Answer, *, inside: bool) -> bool:
    """Say whether an end is as its range says: needed and enough within, not needed or not there outside."""
    return (answer.is_needed and answer.together == "works") if inside else not answer.is_needed


def prove_ends(probes: Probes, spec_ids: Sequence[str]) -> int:
    """Prove each end of each spec and print a line for each; return 0 if all hold."""
    broken = 0
    for end in [end for spec_id in spec_ids for end in ends_of(spec_id)]:
        for release, inside in ((end.inside, True), (end.outside, False)):
            for proof in end.proofs if release is not None else ():
                answer = probes.ask(end.spec_id, proof, {**end.others, end.package: str(release)})
                is_held = holds(answer, inside=inside)
                broken += not is_held
                print(_line(end, proof, str(release), answer, inside=inside, is_held=is_held), flush=True)
    return 1 if broken else 0


def _line(end: End, proof: str, release: str, answer: Answer, *, inside: bool, is_held: bool) -> str:
    place = "inside" if inside else "outside"
    others = ", ".join(f"{name} {text}" for name, text in end.others.items())
    verdict = "holds" if is_held else f"DOES NOT HOLD: {answer.problem}"
    states = f"without {answer.without}, with {answer.together}"
    return f"{end.spec_id}: {place}, {end.package} {release} ({others}), {proof}: {states}: {verdict}"


def bisect(probes: Probes, spec_id: str, package: str, case: str | None) -> int:
    """Find both ends of the releases that need a spec, and print each question and what came out.

    Args:
        probes: asks.
        spec_id: the spec.
        package: whose releases are walked.
        case: what is exported; None for the first proof.

    Returns:
        0 if the ends are those of the range.
    """
    specs = variants(spec_id)
    known = releases(package)
    middle = next(index for index, text in enumerate(known) if any(admits(spec, package, text) for spec in specs))
    others, proofs = _beside(specs, package, known[middle])
    name = case or proofs[0]

    def is_needed(release: str) -> bool:
        answer = probes.ask(spec_id, name, {**others, package: release})
        detail = f": {answer.problem}" if answer.problem else ""
        print(
            f"{package} {release}, {name}: without {answer.without}, with {answer.together}{detail}"[:200], flush=True
        )
        return answer.is_needed

    if not is_needed(known[middle]):
        print(f"{spec_id} is not needed on {package} {known[middle]}, the first release of its range, for {name}")
        return 1
    found = (_last(known[middle::-1], is_needed), _last(known[middle:], is_needed))
    said = tuple(end.inside for end in ends_of(spec_id) if end.package == package)
    print(f"{spec_id} is needed from {package} {found[0]} to {found[1]}; its range says {said[0]} to {said[1]}")
    return 0 if found == said else 1


def _last(ordered: Sequence[str], is_needed: Callable[[str], bool]) -> str:
    """Return the last release of `ordered` that needs the spec, given that the first does and that it ends once."""
    low, high = 0, len(ordered)
    while high - low > 1:
        middle = (low + high) // 2 if high < len(ordered) else high - 1
        low, high = (middle, high) if is_needed(ordered[middle]) else (low, middle)
    return ordered[low]
