"""Conversations: calls with and without images or sounds on one cache, compared with eager."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from exportcompat._verification import LOGITS, Discrepancy, OnnxDecoder, measure, same_tokens

from ._decoder import generator
from ._media_decoder import PLACEHOLDER, Conversation, MediaDecoder

CONVERSATIONS = (
    Conversation(((1,), 1, 1, 3, 1)),
    Conversation(((2,), 5, 1)),
    Conversation(((3, 1, 2), 1, 4, 1)),
    Conversation(((1, 1, 1), 3, 1, 12, 1)),
    Conversation(((2, 0, 1), 1, 2)),
    Conversation(((0,), 1, 3)),
    Conversation(((0, 0, 0), 1, 12, 1)),
    Conversation(((1,), 2, (2,), 1)),
    Conversation(((1, 2), 1, (2, 1), 3)),
    Conversation(((1, 2), 3, 1), has_placeholder=True),
)
"""1 to 6 items, rows with and without padding, texts alone from the first call on, and items in a later call."""


def compare_media(path: Path, make: Any) -> list[Discrepancy]:
    """Run every talk through the file and through a fresh model.

    Args:
        path: an ONNX file with the interface of a decoder.
        make: makes the model.
    """
    file, eager = OnnxDecoder(path), make()
    talks = [talk for talk in CONVERSATIONS if eager.follows(talk)]
    return [row for talk in talks for row in _run(file, make(), talk)]


def _run(file: OnnxDecoder, subject: MediaDecoder, talk: Conversation) -> Iterator[Discrepancy]:
    rows = len(talk.calls[0]) if isinstance(talk.calls[0], tuple) else 1
    cache, eager_cache, draw = file.empty_cache(rows), None, generator()
    past = torch.ones(rows, 0, dtype=torch.int64)
    for place, call in enumerate(talk.calls):
        inputs = subject.prompt(call, 5, past) if isinstance(call, tuple) else _text(subject, call, past, draw, talk)
        begin = time.perf_counter()
        found, cache = file(inputs, cache)
        middle = time.perf_counter()
        wanted, eager_cache = subject(inputs, eager_cache)
        times = {"onnx_ms": 1000 * (middle - begin), "torch_ms": 1000 * (time.perf_counter() - middle)}
        yield _compared(f"{talk}; call {place + 1}", inputs, found, wanted, times)
        past = inputs["attention_mask"]


def _text(subject: MediaDecoder, new: int, past: Any, draw: Any, talk: Conversation) -> dict[str, Any]:
    rows = past.shape[0]
    tokens = torch.randint(3, PLACEHOLDER, (rows, new), generator=draw)
    if talk.has_placeholder:
        tokens[0, 0] = PLACEHOLDER
    return subject.call(tokens, torch.cat([past, torch.ones_like(tokens)], 1), [0] * rows)


def _compared(name: str, inputs: Mapping[str, Any], found: Any, wanted: Any, times: Mapping[str, Any]) -> Discrepancy:
    fields = measure({LOGITS: found}, {LOGITS: wanted})
    same = not fields.get("error") and same_tokens(found, wanted)
    fields["success"] = fields.get("success", False) and same
    shapes = {name: tuple(tensor.shape) for name, tensor in inputs.items()}
    return Discrepancy(call=name, same_tokens=same, inputs=shapes, **times, **fields)
