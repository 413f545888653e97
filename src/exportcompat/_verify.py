"""Compare an exported decoder with the eager model, call by call, at shapes that the export did not see."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from ._decoder import OnnxDecoder
from ._extras import require

TOLERANCE = 1e-3
"""The largest absolute difference of any logit."""


class Reference(Protocol):
    """An eager decoder that keeps its own cache."""

    vocabulary: int

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        """Return the logits, `(batch, sequence, vocabulary)`, and the cache for the next call (None at first)."""


@dataclass(frozen=True)
class Schedule:
    """A sequence of calls on one cache that begins empty.

    Attributes:
        batch: number of sequences.
        lengths: new tokens of each call.
        padding: tokens of left padding in every second sequence, in the first call.
        greedy: from the second call on, feed back the most likely token; else random tokens.
    """

    batch: int
    lengths: tuple[int, ...]
    padding: int = 0
    greedy: bool = False

    def __str__(self) -> str:
        lengths = ",".join(map(str, self.lengths[:4])) + (",..." if len(self.lengths) > 4 else "")
        return f"batch {self.batch}, padding {self.padding}, new tokens {lengths}"


@dataclass(frozen=True)
class Call:
    """The comparison of one call.

    Attributes:
        schedule: where the call belongs.
        past: tokens before it.
        new: tokens in it.
        difference: largest absolute difference of a logit; NaN counts as infinite.
        same_tokens: the most likely next token is the same for every sequence.
    """

    schedule: Schedule
    past: int
    new: int
    difference: float
    same_tokens: bool

    @property
    def success(self) -> bool:
        """Say whether every logit is within the tolerance and the tokens are the same."""
        return self.difference <= TOLERANCE and self.same_tokens

    def __str__(self) -> str:
        tokens = "the same" if self.same_tokens else "another"
        return f"{self.schedule}; past {self.past}, new {self.new}: off by {self.difference:.2g}, {tokens} next token"


def decoder_schedules() -> list[Schedule]:
    """Return the schedules that say "works": prefill, decode, chunks on a filled cache, 32 steps fed back.

    They pass through an empty past and every one from 5 to 37, and reach lengths of 40 and more, so a switch (a
    window, a rope limit)
    below 36 is met on both sides, within a call and between calls, for batches of 1 and 3, with and without padding.
    """
    lengths = [((5, *(1,) * 32), True), ((6, 1, 5, 1, 3, 9, 1, 20), False), ((40, 1, 3), False), ((3, 30, 1), False)]
    return [
        Schedule(batch, calls, padding, greedy) for batch, padding, (calls, greedy) in product((1, 3), (0, 2), lengths)
    ]


def compare(path: Path, reference: Callable[[], Reference], schedules: Sequence[Schedule]) -> list[Call]:
    """Run every schedule through the file and through a fresh reference.

    Args:
        path: an ONNX file with the interface of `_decoder`. One that takes no past is compared on first calls only.
        reference: makes an eager decoder that no call has touched.
        schedules: what to run.

    Raises:
        ExportCompatError: the file cannot be loaded.
        MissingExtraError: torch or onnxruntime is not installed.
    """
    decoder = OnnxDecoder(path)
    return [call for schedule in schedules for call in _run(decoder, reference(), schedule)]


def _run(decoder: OnnxDecoder, reference: Reference, schedule: Schedule) -> Iterator[Call]:
    torch = require("torch", "torch")
    cache, eager_cache, past, logits = decoder.empty_cache(schedule.batch), None, 0, None
    mask = torch.ones(schedule.batch, 0, dtype=torch.int64)
    generator = torch.Generator().manual_seed(sum(schedule.lengths))
    for new in schedule.lengths if decoder.takes_past else schedule.lengths[:1]:
        tokens = _tokens(schedule, new, logits, reference.vocabulary, generator)
        mask = torch.cat([mask, _mask(schedule, past, new)], dim=1)
        inputs = _inputs(tokens, mask, past)
        logits, cache = decoder(inputs, cache)
        wanted, eager_cache = reference(inputs, eager_cache)
        yield _call(schedule, past, new, torch.from_numpy(logits), wanted)
        past += new


def _tokens(schedule: Schedule, new: int, logits: Any, vocabulary: int, generator: Any) -> Any:
    torch = require("torch", "torch")
    if schedule.greedy and logits is not None:
        return torch.from_numpy(logits)[:, -1:].argmax(-1)
    return torch.randint(3, vocabulary, (schedule.batch, new), generator=generator)


def _mask(schedule: Schedule, past: int, new: int) -> Any:
    torch = require("torch", "torch")
    mask = torch.ones(schedule.batch, new, dtype=torch.int64)
    if past == 0 and schedule.padding:
        mask[::2, : schedule.padding] = 0
    return mask


def _inputs(tokens: Any, mask: Any, past: int) -> dict[str, Any]:
    positions = (mask.cumsum(1) - 1).clamp(min=0)[:, past:]
    return {"input_ids": tokens, "attention_mask": mask, "position_ids": positions.contiguous()}


def _call(schedule: Schedule, past: int, new: int, found: Any, wanted: Any) -> Call:
    torch = require("torch", "torch")
    if found.shape != wanted.shape or not wanted.numel():
        return Call(schedule, past, new, float("inf"), False)
    difference = (found - wanted).abs().nan_to_num(nan=float("inf")).max().item()
    same = torch.equal(found[:, -1].argmax(-1), wanted[:, -1].argmax(-1))
    return Call(schedule, past, new, difference, same)
