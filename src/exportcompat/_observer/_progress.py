"""How many calls of a comparison are done, told as they are made."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from exportcompat._extras import require

Tell = Callable[[int, int], object]
"""Takes how many calls are done, and how many there are as far as is known."""

_Item = TypeVar("_Item")


class Progress:
    """Counts items as they pass.

    Args:
        tell: what to tell of each.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell, self._done, self._total = tell, 0, 0

    def through(self, items: Iterable[_Item], count: int) -> Iterator[_Item]:
        """Yield items, of which there are as many as `count`, or fewer if something ends them early."""
        end = self._total = self._total + count
        for item in items:
            self._done += 1
            self._tell(self._done, max(self._total, self._done))
            yield item
        self._done = max(self._done, end)


@contextmanager
def telling(wanted: "bool | Tell") -> Iterator[Tell]:
    """Give what tells of calls: the given function, a bar of tqdm for True, and nothing for False.

    Raises:
        MissingExtraError: a bar is wanted, and tqdm, which comes with transformers, is not installed.
    """
    if callable(wanted):
        yield wanted
        return
    if not wanted:
        yield lambda _done, _total: None
        return
    with warnings.catch_warnings():
        # In a notebook without its widgets, the bar is one of characters.
        warnings.simplefilter("ignore")
        auto = require("tqdm.auto", "transformers")
    with auto.tqdm(desc="calls compared", unit="call") as bar:

        def tell(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield tell
