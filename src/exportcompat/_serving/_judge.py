"""Whether a derived file is kept: it has to be faster than the file that it was derived of, and right."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from exportcompat._observer import InputObserver
from exportcompat._verification import Discrepancies
from exportcompat.registry import ExportCompatError

from ._served import Attempt
from ._timing import WORKLOADS, compare_times, is_faster
from ._weights import Weights

NO_PLACE = "the graph has no place for it"
UNVERIFIED = "UNVERIFIED: compare and time it where it runs"


def unverified(name: str) -> Attempt:
    """Return what is said of a derivation for a runtime that is not here."""
    return Attempt(name, kept=True, reason="neither compared nor timed")


@dataclass(frozen=True)
class Judge:
    """Times derived files and compares them with eager.

    Attributes:
        observer: has watched the model.
        tolerance: see `InputObserver.check_discrepancies`.
        provider: of ONNX Runtime, that the files are timed and compared with.
    """

    observer: InputObserver
    tolerance: float | None
    provider: str

    def verdict(
        self, name: str, made: Path, before: Path, calls: Sequence[tuple[int, int]] = WORKLOADS
    ) -> tuple[Attempt, Discrepancies | None]:
        """Return what is said of a file, and its comparison if it is fast enough to have one.

        Args:
            name: of the derivation.
            made: the file; for an encoder-decoder that for later calls.
            before: the file that it was derived of.
            calls: past and new tokens of the calls that are timed.
        """
        ratios = compare_times(made, before, self.provider, calls)
        if not is_faster(ratios):
            return Attempt(name, kept=False, reason="it is not faster", ratios=ratios), None
        found = self.observer.check_discrepancies(made, tolerance=self.tolerance, provider=self.provider)
        if not found.success:
            return Attempt(name, kept=False, reason=f"it is wrong: {found.summary}", ratios=ratios), found
        return Attempt(name, kept=True, reason="it is right and faster", ratios=ratios), found


def check_parts(weights: Weights | None, output: Path | None = None) -> None:
    """Refuse for an encoder-decoder what is for one file alone."""
    if output is not None:
        raise ExportCompatError(
            f"an output ({output}) is for decoders of one file; those of an encoder-decoder have names of their own"
        )
    if weights is not None:
        raise ExportCompatError(f"weights={weights!r} are for decoders of one file, and this is an encoder-decoder")
