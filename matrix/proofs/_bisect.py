"""The ends of the releases that need a spec, found by walking the releases."""

from collections.abc import Callable, Sequence

from exportcompat.matrix.versions import admits, boundaries_of, place_of, releases, variants

from ._probes import BisectionRuns


def bisect(probes: BisectionRuns, spec_id: str, package: str, case: str | None) -> int:
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
    _, others, proofs = place_of(specs, package, known[middle : middle + 1])
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
    said = tuple(end.inside for end in boundaries_of(spec_id) if end.package == package)
    print(f"{spec_id} is needed from {package} {found[0]} to {found[1]}; its range says {said[0]} to {said[1]}")
    return 0 if found == said else 1


def _last(ordered: Sequence[str], is_needed: Callable[[str], bool]) -> str:
    """Return the last release of `ordered` that needs the spec, given that the first does and that it ends once."""
    low, high = 0, len(ordered)
    while high - low > 1:
        middle = (low + high) // 2 if high < len(ordered) else high - 1
        low, high = (middle, high) if is_needed(ordered[middle]) else (low, middle)
    return ordered[low]
