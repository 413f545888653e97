"""What calls a derived file takes, as its metadata states it: a comparison keeps to that."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ._onnx_file import PREFIX

_KEY = f"{PREFIX}contract"


@dataclass(frozen=True)
class Contract:
    """The calls that a file is right for; those of a file as `export` writes it are all.

    Attributes:
        chunk_batch: the most sequences in a call of several tokens after a past; None for any number. ONNX Runtime
            refuses other calls.
        last_logits: the logits are those of the last token, `(batch, 1, vocabulary)`.
    """

    chunk_batch: int | None = None
    last_logits: bool = False

    def admits(self, batch: int, past: int, new: int) -> bool:
        """Say whether a call of `new` tokens after `past` ones is within it."""
        return self.chunk_batch is None or past == 0 or new == 1 or batch <= self.chunk_batch

    def admits_all(self, batch: int, lengths: Sequence[int]) -> bool:
        """Say whether every call of a conversation of so many new tokens each is within it."""
        return all(self.admits(batch, sum(lengths[:index]), new) for index, new in enumerate(lengths))

    def narrowed(self, other: "Contract") -> "Contract":
        """Return the contract of a file that is right for what both admit."""
        bounds = [item.chunk_batch for item in (self, other) if item.chunk_batch is not None]
        return replace(self, chunk_batch=min(bounds, default=None), last_logits=self.last_logits or other.last_logits)

    def __str__(self) -> str:
        chunks = "any batch" if self.chunk_batch is None else f"batch {self.chunk_batch}"
        logits = "the last token" if self.last_logits else "every token"
        return (
            f"first calls and single tokens: any batch, left padding; chunks after a past: {chunks}; logits of {logits}"
        )

    def to_metadata(self) -> dict[str, str]:
        """Return what a file says of it."""
        return {_KEY: json.dumps(asdict(self))}


def contract_of(metadata: Mapping[str, str]) -> Contract:
    """Return the contract that a file states; one that states none takes every call."""
    return Contract(**json.loads(metadata.get(_KEY, "{}")))
