"""A call that the model itself refuses says nothing about a file."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="what is compared are tensors")

from exportcompat._observer._eager_limits import with_eager_limits
from exportcompat._observer._replay import _guarded
from exportcompat._verification import Schedule, run

SCHEDULE = Schedule(1, (3, 1, 1))


class Counting:
    """A decoder that knows the first positions alone; its cache is how many tokens it has had."""

    vocabulary, takes_past, last_only = 5, True, False
    inputs = ("input_ids", "attention_mask")

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def empty_cache(self, batch: int) -> int:
        return 0

    def others(self, batch: int, past: int) -> dict[str, Any]:
        return {}

    def __call__(self, inputs: Any, cache: Any) -> tuple[Any, Any]:
        tokens = inputs["input_ids"]
        length = (cache or 0) + tokens.shape[1]
        if length > self.limit:
            raise IndexError(f"position {length - 1} of {self.limit}\nand more")
        return torch.nn.functional.one_hot(tokens, self.vocabulary).float() * 10, length


def rows(file: int, eager: int) -> tuple[list[tuple[bool, str]], list[str]]:
    """Return whether each call is right and its error, and the notes, for two limits."""
    notes: list[str] = []
    asked, reference = with_eager_limits(Counting(file), Counting(eager))
    found = _guarded(SCHEDULE, run(asked, reference, SCHEDULE), notes)
    return [(row.success, row.error) for row in found], notes


def test_what_both_take_is_compared() -> None:
    assert rows(9, 9) == ([(True, "")] * 3, [])


@pytest.mark.parametrize("file", [4, 9])
def test_what_eager_refuses_is_a_note_whether_or_not_the_file_takes_it(file: int) -> None:
    note = f"not compared: {SCHEDULE}, from length 5 on; eager: IndexError: position 4 of 4"
    assert rows(file, 4) == ([(True, "")] * 2, [note])


def test_what_the_file_alone_refuses_is_its_fault() -> None:
    found, notes = rows(4, 9)
    assert (found[:2], notes) == ([(True, "")] * 2, [])
    assert found[2] == (False, "IndexError: position 4 of 4")
