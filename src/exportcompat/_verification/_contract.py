"""What calls a file takes, as its metadata or its user states it: a comparison keeps to that."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, takewhile

from ._onnx_file import PREFIX

_KEY = f"{PREFIX}contract"


@dataclass(frozen=True)
class Contract:
    """The calls that a file is right for; those of a file as `export` writes it are all.

    Attributes:
        chunk_batch: the most sequences in a call of several tokens after a past; None for any number, 0 for no such
            call. ONNX Runtime refuses other calls.
        last_logits: the logits are those of the last token, `(batch, 1, vocabulary)`.
        padding: calls may have padding on the left of some sequences.
        batch: the most sequences in a call; None for any number.
    """

    chunk_batch: int | None = None
    last_logits: bool = False
    padding: bool = True
    batch: int | None = None

    def admits(self, batch: int, past: int, new: int, *, padded: bool = False) -> bool:
        """Say whether a call of `new` tokens after `past` ones is within it."""
        is_chunk = past > 0 and new > 1
        bounds = [self.batch, self.chunk_batch if is_chunk else None]
        return (self.padding or not padded) and all(bound is None or batch <= bound for bound in bounds)

    def admitted(self, batch: int, lengths: Sequence[int], *, padded: bool = False) -> tuple[int, ...]:
        """Return the new tokens of the calls of a conversation up to the first one that is not within it."""
        pasts = accumulate(lengths, initial=0)
        calls = zip(pasts, lengths, strict=False)
        return tuple(new for _, new in takewhile(lambda call: self.admits(batch, *call, padded=padded), calls))

    def narrowed(self, other: "Contract") -> "Contract":
        """Return the contract of a file that is right for what both admit."""
        return Contract(
            chunk_batch=_least(self.chunk_batch, other.chunk_batch),
            last_logits=self.last_logits or other.last_logits,
            padding=self.padding and other.padding,
            batch=_least(self.batch, other.batch),
        )

    def __str__(self) -> str:
        batch = "any batch" if self.batch is None else f"batch {self.batch}"
        padding = "left padding" if self.padding else "no padding"
        bound = _least(self.batch, self.chunk_batch)
        chunks = "any batch" if bound is None else f"batch {bound}" if bound else "none"
        logits = "the last token" if self.last_logits else "every token"
        return f"first calls and single tokens: {batch}, {padding}; chunks after a past: {chunks}; logits of {logits}"

    def to_metadata(self) -> dict[str, str]:
        """Return what a file says of it."""
        return {_KEY: json.dumps(asdict(self))}


def contract_of(metadata: Mapping[str, str]) -> Contract:
    """Return the contract that a file states; one that states none takes every call."""
    return Contract(**json.loads(metadata.get(_KEY, "{}")))


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)
