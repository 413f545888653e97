"""From the decoder of an encoder-decoder two files: a later call is faster if it is not a first one as well."""

from pathlib import Path
from tempfile import TemporaryDirectory

from exportcompat._verification import FIRST, LATER, PREFIX, Contract, Discrepancies

from ._decoder_parts import NAME, split
from ._judge import NO_PLACE, UNVERIFIED, Judge, unverified
from ._served import Attempt, Say, Served
from ._timing import LATER_CALLS

_CONTRACT = Contract(padding=False)
"""What clients of two such files do, and what is compared."""


def serve_parts(path: Path, judge: Judge | None, target: str, contract: Contract, say: Say) -> Served:
    """Write the graphs for first and for later calls beside the file that does both, if they are right and faster.

    Args:
        path: the file that does both.
        judge: compares and times; None to write them neither compared nor timed.
        target: where they shall run.
        contract: of the one file.
        say: gets a line for each step.
    """
    say(f"{NAME} ...")
    contract = contract.narrowed(_CONTRACT)
    facts = {"target": target, "verified": "no" if judge is None else "within its contract", "derivations": NAME}
    facts = {f"{PREFIX}{key}": value for key, value in facts.items()} | contract.to_metadata()
    with TemporaryDirectory(dir=path.parent, prefix=".serve.") as name:
        folder = Path(name)
        attempt, found = _attempt(path, folder, facts, judge)
        if attempt.kept:
            for part in (FIRST, LATER):
                (folder / part).replace(path.with_name(part))
    if not attempt.kept:
        return Served(None, target, contract, [attempt])
    note = UNVERIFIED if judge is None else f"first calls: {FIRST}, beside it"
    return Served(path.with_name(LATER), target, contract, [attempt], found, notes=[note])


def _attempt(
    path: Path, folder: Path, facts: dict[str, str], judge: Judge | None
) -> tuple[Attempt, Discrepancies | None]:
    """Write both files into a folder, and return what is said of them."""
    if not split(path, folder, facts):
        return Attempt(NAME, kept=False, reason=NO_PLACE), None
    if judge is None:
        return unverified(NAME), None
    return judge.verdict(NAME, folder / LATER, path, LATER_CALLS)
