"""How long two decoders take for the same calls, in turns: on a busy machine a ratio within one run is what holds."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat._verification import CPU, OnnxDecoder, OnnxFile

from ._decoder_parts import OF_STATES, STATES

WORKLOADS: Sequence[tuple[int, int]] = ((1, 1), (64, 1), (1024, 1), (0, 256), (0, 2048))
"""Past and new tokens, one sequence."""

LATER_CALLS: Sequence[tuple[int, int]] = ((1, 1), (64, 1), (440, 1))
"""The same for a decoder that has been called once, after an encoder."""

_ENCODED = 512
"""States of an encoder that such a decoder has seen."""

_ROUNDS = 60
_LEAST_ROUNDS, _SECONDS = 7, 1.0
"""Where a call is long, fewer rounds: as many as fit into so many seconds of each file."""
_LONG_ROUNDS, _LONG_SECONDS = 3, 4.0
"""Where a call takes seconds, fewer still: what disturbs it is little by its side."""

_GAIN, _LOSS = 0.97, 1.05
"""The mean ratio that counts as faster, and the ratio of one workload that counts as slower."""


@dataclass(frozen=True)
class Ratio:
    """The time of one file by that of another: CPU time, or on a GPU that on the wall.

    Attributes:
        past: tokens before the call.
        new: tokens in the call.
        ratio: less than 1 if it is faster.
    """

    past: int
    new: int
    ratio: float

    def __str__(self) -> str:
        return f"{self.ratio:.2f} ({self.new} after {self.past})"


def is_faster(ratios: Sequence[Ratio]) -> bool:
    """Say whether a file is faster on the whole, and nowhere clearly slower."""
    mean = sum(item.ratio for item in ratios) / max(len(ratios), 1)
    return bool(ratios) and mean <= _GAIN and all(item.ratio <= _LOSS for item in ratios)


def compare_times(
    file: Path, base: Path, provider: str = CPU, workloads: Sequence[tuple[int, int]] = WORKLOADS
) -> list[Ratio]:
    """Return the ratios of times; a workload that the base does not take, such as one too long, is left out."""
    files = [OnnxFile(path, provider=provider) for path in (base, file)]
    return [ratio for past, new in workloads if (ratio := _ratio(files, past, new)) is not None]


def _ratio(files: Sequence[OnnxFile], past: int, new: int) -> Ratio | None:
    try:
        calls = [_call(file, _feeds(file, past, new)) for file in files]
        # The first call of a shape plans its memory.
        spent = [call() for call in calls]
    except Exception:
        # A table of positions may be shorter than the text.
        return None
    # What disturbs one call of a turn mostly disturbs the other too, so it is the turns that have a median.
    turns, total = [], sum(spent)
    for index in range(_ROUNDS):
        enough = _SECONDS if index >= _LEAST_ROUNDS else _LONG_SECONDS
        if index >= _LONG_ROUNDS and total > enough * len(calls):
            break
        spent = [call() for call in (calls if index % 2 else calls[::-1])]
        base, derived = spent if index % 2 else spent[::-1]
        turns.append(derived / base)
        total += base + derived
    return Ratio(past, new, statistics.median(turns))


def _call(file: OnnxFile, feeds: Mapping[str, Any]) -> Callable[[], float]:
    """Return what calls a file, and returns the seconds that it has taken."""
    if file.provider == CPU:
        return partial(_seconds, partial(file.run, feeds), time.thread_time)
    # Tensors stay on the GPU, as they do in use, and the CPU only waits.
    return partial(_seconds, file.bound(feeds), time.perf_counter)


def _seconds(call: Callable[[], object], clock: Callable[[], float]) -> float:
    begin = clock()
    call()
    return clock() - begin


def _feeds(file: OnnxFile, past: int, new: int) -> dict[str, Any]:
    torch = require("torch", "torch")
    decoder = OnnxDecoder(file)
    generator = torch.Generator().manual_seed(new)
    tokens = {
        "input_ids": torch.randint(0, 64, (1, new), generator=generator),
        "attention_mask": torch.ones(1, past + new, dtype=torch.int64),
        "position_ids": torch.arange(past, past + new)[None],
    }
    states = {
        STATES: torch.zeros(1, 0, *file.inputs.get(STATES, [])[2:]),
        "encoder_attention_mask": torch.ones(1, _ENCODED, dtype=torch.int64),
    }
    lengths = {name: _ENCODED if OF_STATES in name else past for name in decoder.empty_cache(1)}
    cache = {
        name: torch.randn([lengths[name] if size == 0 else size for size in value.shape], generator=generator)
        for name, value in decoder.empty_cache(1).items()
    }
    return {name: value for name, value in {**tokens, **states, **cache}.items() if name in file.inputs}
