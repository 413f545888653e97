"""From the decoder of an encoder-decoder two files: a later call is faster if it is not a first one as well."""

from pathlib import Path
from tempfile import TemporaryDirectory

from exportcompat._observer import InputObserver
from exportcompat._verification import FIRST, LATER, PREFIX, Contract

from ._decoder_parts import NAME, split
from ._served import Attempt, Say, Served
from ._targets import Target
from ._timing import LATER_CALLS, compare_times, is_faster

_CONTRACT = Contract(padding=False)
"""What clients of two such files do, and what is compared."""


def serve_parts(
    path: Path,
    observer: InputObserver | None,
    target: Target,
    contract: Contract,
    tolerance: float | None,
    say: Say,
) -> Served:
    """Write the graphs for first and for later calls beside the file that does both, if they are right and faster.

    Args:
        path: the file that does both.
        observer: has watched the decoder; None to write them neither compared nor timed.
        target: where they shall run.
        contract: of the one file.
        tolerance: see `InputObserver.check_discrepancies`.
        say: gets a line for each step.
    """
    say(f"{NAME} ...")
    contract = contract.narrowed(_CONTRACT)
    is_verified = observer is not None
    facts = {"target": target.name, "verified": "within its contract" if is_verified else "no", "derivations": NAME}
    facts = {f"{PREFIX}{key}": value for key, value in facts.items()} | contract.to_metadata()
    with TemporaryDirectory(dir=path.parent, prefix=".serve.") as name:
        folder = Path(name)
        if not split(path, folder, facts):
            return Served(
                None, target.name, contract, [Attempt(NAME, kept=False, reason="the graph has no place for it")]
            )
        made = _judged(path, folder / LATER, observer, target, contract, tolerance)
        if made.path is None:
            return made
        for part in (FIRST, LATER):
            (folder / part).replace(path.with_name(part))
        return made


def _judged(
    path: Path,
    later: Path,
    observer: InputObserver | None,
    target: Target,
    contract: Contract,
    tolerance: float | None,
) -> Served:
    """Return what is said of both files, as they will stand beside the plain one."""
    place = path.with_name(LATER)
    if observer is None:
        attempt = Attempt(NAME, kept=True, reason="neither compared nor timed")
        note = "UNVERIFIED: compare and time it where it runs"
        return Served(place, target.name, contract, [attempt], notes=[note])
    ratios = compare_times(later, path, target.provider, LATER_CALLS)
    if not is_faster(ratios):
        attempt = Attempt(NAME, kept=False, reason="it is not faster", ratios=ratios)
        return Served(None, target.name, contract, [attempt])
    found = observer.check_discrepancies(later, tolerance=tolerance, provider=target.provider)
    if not found.success:
        attempt = Attempt(NAME, kept=False, reason=f"it is wrong: {found.summary}", ratios=ratios)
        return Served(None, target.name, contract, [attempt])
    attempt = Attempt(NAME, kept=True, reason="it is right and faster", ratios=ratios)
    return Served(place, target.name, contract, [attempt], found, notes=[f"first calls: {FIRST}, beside it"])
