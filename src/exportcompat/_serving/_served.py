"""What came of deriving a file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exportcompat._verification import Contract, Discrepancies

from ._timing import Ratio
from ._weights import Loss

Say = Callable[[str], None]


@dataclass(frozen=True)
class Attempt:
    """One derivation that was tried.

    Attributes:
        name: of the derivation.
        kept: whether the file has it.
        reason: why, or why not.
        ratios: CPU time by that of the file without it.
    """

    name: str
    kept: bool
    reason: str
    ratios: Sequence[Ratio] = ()

    def __str__(self) -> str:
        times = f": CPU time {', '.join(map(str, self.ratios))}" if self.ratios else ""
        return f"{self.name}: {'kept' if self.kept else 'left out'}, {self.reason}{times}"


@dataclass(frozen=True)
class Served:
    """What `serve` made.

    Attributes:
        path: the file, of an encoder-decoder the one for later calls; None if there is none that is right and faster.
        target: its runtime.
        contract: the calls that it is for.
        attempts: what was tried.
        discrepancies: its comparison with eager within its contract, before its weights were made smaller; None for a
            file that was not compared.
        loss: what smaller weights have cost; None for weights as they were.
        notes: what else there is to say.
    """

    path: Path | None
    target: str
    contract: Contract
    attempts: list[Attempt]
    discrepancies: Discrepancies | None = None
    loss: Loss | None = None
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = f"{self.path} for {self.target}" if self.path else f"no file for {self.target}: nothing was faster"
        rows = [f"  {item}" for item in self.attempts]
        made = [f"  contract: {self.contract}"] if self.path else []
        when = "" if self.loss is None else ", with its own weights"
        found = [] if self.discrepancies is None else [f"  compared with eager{when}: {self.discrepancies.summary}"]
        loss = [] if self.loss is None else [f"  {self.loss}"]
        return "\n".join([head, *rows, *made, *found, *loss, *(f"  {note}" for note in self.notes)])
