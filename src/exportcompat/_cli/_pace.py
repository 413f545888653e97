"""How long a stage takes still: from what is done of it, and from how long its phases took the time before."""

import time
from collections.abc import Callable, Mapping
from itertools import pairwise

from ._progress_counts import DECOMPOSED, LAYERS, TRANSLATED

_OPTIMIZED = "optimized"
"""What follows the last node; nothing of it is counted."""

_SHARES: Mapping[str, float] = {LAYERS: 0.45, DECOMPOSED: 0.45, TRANSLATED: 0.04, _OPTIMIZED: 0.06}
"""Of the time of an export, in their order, as measured with Llama and Qwen2.5-VL in torch 2.13."""


class Pace:
    """Notes what is done of a stage, and estimates what is left.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shares = dict(_SHARES)
        self._ends: dict[str, float] = {}
        self._begin = 0.0
        self.begin()

    def begin(self) -> None:
        """Begin a stage; the shares of the phases of the one before are learnt, if all of them were seen."""
        ends, now = self._ends, self._clock()
        times = [self._begin, *ends.values(), now]
        # An export that was tried twice has them in no order.
        if [*ends, _OPTIMIZED] == list(self._shares) and times == sorted(times):
            spent = dict(zip(self._shares, (b - a for a, b in pairwise(times)), strict=True))
            self._shares = {name: seconds / max(sum(spent.values()), 1e-9) for name, seconds in spent.items()}
        self._ends = {}
        self._begin = now
        self.what, self.done, self.total = "", 0, 0

    def note(self, what: str, done: int, total: int) -> None:
        """Note that so many of something are done."""
        self._ends[what] = self._clock()
        self.what, self.done, self.total = what, done, total

    def left(self) -> float | None:
        """Return the seconds that the stage takes still; None if nothing tells."""
        if not self.total or not self.done:
            return None
        done = self.done / self.total
        if self.what in self._shares:
            names = list(self._shares)
            before = sum(self._shares[name] for name in names[: names.index(self.what)])
            done = before + done * self._shares[self.what]
        return (self._clock() - self._begin) * (1 - done) / done if 0 < done < 1 else None
