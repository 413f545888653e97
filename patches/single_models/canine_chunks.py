"""CANINE's first layer goes through a text in chunks, as many as the sample has.

Symptom: `tracing inferred a static shape of 16 for dimension inputs['input_ids'].shape[1]`, for CANINE.
Cause: in `CanineAttention.forward`, `for chunk_start in range(from_start, from_seq_length, stride)`, and a list of what
comes of each chunk.
What is done: while it is traced, the chunks are an axis, so that all are computed at once, where upstream has them. The
last one is filled up, by one chunk more at most, with what nobody sees. A layer whose chunks overlap, or that sees the
first character everywhere, which no model of transformers has, is left as it is.
Can go: when torch exports a loop over a size that is not known.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced


def patch_attention_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Attend within all chunks of a text at once, in `forward` of an attention."""

    def traced(self: Any, hidden_states: Any, attention_mask: Any = None, *args: Any, **kwargs: Any) -> Any:
        asks_more = any(item is not None and item is not False for item in (*args, *kwargs.values()))
        if asks_more or attention_mask is None or not _has_plain_chunks(self):
            return original(self, hidden_states, attention_mask, *args, **kwargs)
        return (self.output(_attended(self, hidden_states, attention_mask), hidden_states),)

    return when_traced(original, traced)


def _has_plain_chunks(attention: Any) -> bool:
    """Say whether an attention is within chunks that follow one another, and of nothing else."""
    beside = attention.always_attend_to_first_position or attention.first_position_attends_to_all
    sizes = {getattr(attention, f"attend_{way}_chunk_{size}") for way in ("from", "to") for size in ("width", "stride")}
    return attention.local and not beside and len(sizes) == 1


def _attended(attention: Any, states: Any, mask: Any) -> Any:
    """Return `(batch, length, hidden)`, where `mask` is `(batch, length, length)`."""
    import torch

    length, width = states.shape[1], attention.attend_from_chunk_width
    # At least two chunks, of which one may be too many: torch takes an axis that is 1 in the sample for 1.
    count = (length + 2 * width - 2) // width
    places = torch.arange(count * width, device=states.device)
    # Rows are picked by number, here and below: torch asks nothing of lengths then.
    inside = places.clamp(max=length - 1)
    # The model makes the mask of one for each character, so that all rows are alike.
    seen = (1.0 - mask[:, 0].float()) * torch.finfo(states.dtype).min
    # A text that is all padding has equal scores in upstream, and what is behind the text no part in them. A chunk that
    # is behind the text has no score at all, and its rows are not picked.
    seen = torch.where(places < length, seen[:, inside], float("-inf"))
    seen = seen.unflatten(1, (count, width)).flatten(0, 1)[:, None, None]
    chunks = states[:, inside].unflatten(1, (count, width)).flatten(0, 1)
    found = attention.self(chunks, chunks, seen)[0].unflatten(0, (states.shape[0], count)).flatten(1, 2)
    return found[:, torch.arange(length, device=states.device)]


_CANINE = "transformers.models.canine.modeling_canine"
_SOURCE = (source("models/canine/modeling_canine.py", "v5.24.0"),)

SPECS = variants(
    {
        "id": "canine-chunks",
        "targets": (f"{_CANINE}:CanineAttention.forward",),
        "replacement": f"{__name__}:patch_attention_forward",
        "reason": "CANINE goes through a text in chunks, in a loop over as many as the sample has: no graph.",
        "upstream": _SOURCE,
        "proofs": ("canine",),
        "kind": "wrap",
    },
    {"transformers>=4.57": {}},
)
