"""Compare an exported decoder with the eager model, call by call, at shapes that the export did not see."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from exportcompat._extras import require

from ._discrepancy import Discrepancy, Share, allowed, measure
from ._onnx_decoder import LOGITS, OnnxDecoder
from ._onnx_file import Program

_TIE = 128
"""Logits that are apart by less than so many roundings of the largest one are equal: a sum in another order tells."""


class Reference(Protocol):
    """An eager decoder that keeps its own cache."""

    vocabulary: int

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        """Return the logits, `(batch, sequence, vocabulary)`, and the cache for the next call (None at first)."""

    def others(self, batch: int, past: int) -> Mapping[str, Any]:
        """Return the inputs of a call besides the text, such as the states of an encoder."""


class Candidate(Protocol):
    """An exported decoder that is compared, as `OnnxDecoder` is."""

    @property
    def takes_past(self) -> bool:
        """Say whether a call can go on from another one."""

    @property
    def last_only(self) -> bool:
        """Say whether the logits are those of the last token alone."""

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs that are no cache."""

    def empty_cache(self, batch: int) -> Any:
        """Return what the first call has for a cache."""

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        """Return the logits and the cache for the next call."""


@dataclass(frozen=True)
class Schedule:
    """A sequence of calls on one cache that begins empty.

    Attributes:
        batch: number of sequences.
        lengths: new tokens of each call.
        padding: tokens of left padding in every second sequence, in the first call.
        greedy: from the second call on, feed back the most likely token; else random tokens.
        codes: tokens of each step, for a sound that is several streams of them; 0 for a text.
    """

    batch: int
    lengths: tuple[int, ...]
    padding: int = 0
    greedy: bool = False
    codes: int = 0

    def __str__(self) -> str:
        lengths = ",".join(map(str, self.lengths[:4])) + (",..." if len(self.lengths) > 4 else "")
        return f"batch {self.batch}, padding {self.padding}, new tokens {lengths}"


def decoder_schedules() -> list[Schedule]:
    """Return the schedules that say "works": prefill, decode, chunks on a filled cache, 32 steps fed back.

    They pass through an empty past and every one from 5 to 37, and reach lengths of 40 and more, so a switch (a
    window, a rope limit) below 36 is met on both sides, within a call and between calls, for batches of 1 and 3, with
    and without padding.
    """
    lengths = [((5, *(1,) * 32), True), ((6, 1, 5, 1, 3, 9, 1, 20), False), ((40, 1, 3), False), ((3, 30, 1), False)]
    return [
        Schedule(batch, calls, padding, greedy) for batch, padding, (calls, greedy) in product((1, 3), (0, 2), lengths)
    ]


def compare(
    path: Path | Program, reference: Callable[[], Reference], schedules: Sequence[Schedule]
) -> list[Discrepancy]:
    """Run every schedule through the file and through a fresh reference.

    Args:
        path: an ONNX file with the interface of `_onnx_decoder`, or another program with it. One without a past is
            compared on first calls only.
        reference: makes an eager decoder that no call has touched.
        schedules: what to run.

    Raises:
        ExportCompatError: the file cannot be loaded.
        MissingExtraError: torch or onnxruntime is not installed.
    """
    decoder = OnnxDecoder(path)
    return [row for schedule in schedules for row in run(decoder, reference(), schedule)]


def run(
    decoder: Candidate,
    reference: Reference,
    schedule: Schedule,
    tolerance: float | None = None,
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    *,
    types: bool = True,
) -> Iterator[Discrepancy]:
    """Yield a row for each call of a schedule.

    Args:
        decoder: the file, or what else was exported.
        reference: the eager decoder.
        schedule: the calls.
        tolerance: largest absolute difference of a logit; None for the one of the type.
        around: makes the context of an eager call.
        types: see `measure`.
    """
    torch = require("torch", "torch")
    cache, eager_cache, past, logits = decoder.empty_cache(schedule.batch), None, 0, None
    mask = torch.ones(schedule.batch, 0, dtype=torch.int64)
    generator = torch.Generator().manual_seed(sum(schedule.lengths))
    for new in schedule.lengths if decoder.takes_past else schedule.lengths[:1]:
        tokens = _tokens(schedule, new, logits, reference.vocabulary, generator)
        mask = torch.cat([mask, _mask(schedule, past, new)], dim=1)
        inputs = {**_inputs(tokens, mask, past, decoder.inputs), **reference.others(schedule.batch, past)}
        begin = time.perf_counter()
        logits, cache = decoder(inputs, cache)
        middle = time.perf_counter()
        with around():
            wanted, eager_cache = reference(inputs, eager_cache)
        times = {"onnx_ms": 1000 * (middle - begin), "torch_ms": 1000 * (time.perf_counter() - middle)}
        # A derived file may give the logits of the last token alone, and its contract says so.
        wanted = wanted[:, -1:] if decoder.last_only else wanted
        measured = measure({LOGITS: logits}, {LOGITS: wanted}, tolerance, types=types)
        yield _row(schedule, past, inputs, logits, wanted, tolerance, {**times, **measured})
        past += new


def _tokens(schedule: Schedule, new: int, logits: Any, vocabulary: int, generator: Any) -> Any:
    """Return `(batch, sequence)` tokens, or `(batch, sequence, codes)`; logits of codes are one under the other."""
    torch = require("torch", "torch")
    if schedule.greedy and logits is not None:
        likely = logits[:, -1:].argmax(-1)
        return likely.reshape(schedule.batch, 1, schedule.codes) if schedule.codes else likely
    shape = (schedule.batch, new, schedule.codes) if schedule.codes else (schedule.batch, new)
    return torch.randint(min(3, vocabulary - 1), vocabulary, shape, generator=generator)


def _mask(schedule: Schedule, past: int, new: int) -> Any:
    torch = require("torch", "torch")
    mask = torch.ones(schedule.batch, new, dtype=torch.int64)
    if past == 0 and schedule.padding:
        mask[::2, : schedule.padding] = 0
    return mask


def _inputs(tokens: Any, mask: Any, past: int, names: Sequence[str]) -> dict[str, Any]:
    torch = require("torch", "torch")
    positions = (mask.cumsum(1) - 1).clamp(min=0)[:, past:]
    inputs = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions.contiguous()}
    if "cache_position" in names:
        # Where in the cache the tokens go; older releases need to be told for a cache of fixed size.
        inputs["cache_position"] = torch.arange(past, past + tokens.shape[1])
    return inputs


def _row(
    schedule: Schedule,
    past: int,
    inputs: Mapping[str, Any],
    found: Any,
    wanted: Any,
    tolerance: float | None,
    fields: dict[str, Any],
) -> Discrepancy:
    new = inputs["input_ids"].shape[1]
    same = not fields.get("error") and same_tokens(found, wanted, tolerance)
    fields["success"] = fields.get("success", False) and same
    return Discrepancy(
        call=f"{schedule}; past {past}, new {new}",
        group=str(schedule),
        past=past,
        new=new,
        same_tokens=same,
        inputs={name: tuple(tensor.shape) for name, tensor in inputs.items()},
        **fields,
    )


def same_tokens(found: Any, wanted: Any, tolerance: float | None = None) -> bool:
    """Say whether the most likely next tokens of `(batch, sequence, vocabulary)` logits are the same.

    Several tokens may be equally likely, but for what the type rounds off: any of them is right.
    """
    torch = require("torch", "torch")
    # A file gives its results on the CPU, and a model may be on another device.
    found, wanted = found.cpu(), wanted.cpu()
    last = wanted[:, -1].to(torch.promote_types(wanted.dtype, torch.float32))
    chosen = last.gather(1, found[:, -1].argmax(-1)[:, None])[:, 0]
    is_wide = wanted.dtype in (torch.float32, torch.float64) and not isinstance(tolerance, Share)
    tie = _TIE * torch.finfo(wanted.dtype).eps * last.abs().amax(-1) if is_wide else 2 * allowed(wanted, tolerance)
    return bool((last.amax(-1) - chosen <= tie).all())
