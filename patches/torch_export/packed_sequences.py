"""`pack_padded_sequence` cannot be captured.

Symptom: `zeros(): argument 'size' failed to unpack the object at pos 2 with error "type must be tuple of ints, but got
FakeTensor"`, for recurrent layers between `pack_padded_sequence` and `pad_packed_sequence`.
Cause: the packed rows and their counts are data: there are as many as there are tokens.
What is done: while it is traced, a batch stays padded, and its lengths go with it. A layer goes through the rows once
in each direction, backward from the last token of each; its last states are those at the last token. To the gates of an
LSTM padding says that the cell stays as it is. What comes out is padded as it was asked for, and as long as the longest
text.
Can go: when torch has shapes for `_pack_padded_sequence` and the layers that take what it returns.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_packing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that packs a batch, takes one apart, or runs a layer on it, keep the batch padded in a graph."""
    if original.__name__ == "forward":
        return _patched_forward(original)
    return _patched_pack(original) if original.__name__ == "pack_padded_sequence" else _patched_pad(original)


def _patched_pack(original: Callable[..., Any]) -> Callable[..., Any]:
    from exportcompat.patches.toolkit.tracing import is_traced

    def pack_padded_sequence(input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> Any:  # noqa: A002
        if not is_traced(input):
            return original(input, lengths, batch_first, enforce_sorted)
        from ._padded_rows import rows_of

        return rows_of(input, lengths, batch_first)

    return pack_padded_sequence


def _patched_pad(original: Callable[..., Any]) -> Callable[..., Any]:
    def pad_packed_sequence(
        sequence: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
    ) -> Any:
        from ._padded_rows import PaddedRows, padded

        if not isinstance(sequence, PaddedRows):
            return original(sequence, batch_first, padding_value, total_length)
        return padded(sequence, batch_first, padding_value, total_length)

    return pad_packed_sequence


def _patched_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, input: Any, hx: Any = None) -> Any:  # noqa: A002
        from ._padded_rows import PaddedRows, run_layers

        return run_layers(self, input, hx) if isinstance(input, PaddedRows) else original(self, input, hx)

    return forward


_RNN = "torch.nn.utils.rnn"

SPECS = (
    PatchingSpec(
        id="torch-export-packed-sequences",
        targets=(
            f"{_RNN}:pack_padded_sequence",
            f"{_RNN}:pad_packed_sequence",
            f"imported({_RNN}:pack_padded_sequence)",
            f"imported({_RNN}:pad_packed_sequence)",
            *(f"torch.nn.modules.rnn:{name}.forward" for name in ("GRU", "LSTM", "RNN")),
        ),
        replacement=f"{__name__}:patch_packing",
        requires=("torch>=2.11",),
        reason="The sizes of packed sequences are data: models with them cannot be captured.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/utils/rnn.py",),
        proofs=("unpacking_gpt",),
        kind="wrap",
    ),
)
