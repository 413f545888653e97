"""A recurrence over tokens in chunks of a fixed size, in torch's `scan`, which becomes ONNX' `Scan`.

Its body is in the graph once, has products of matrices in it, and needs the memory of one chunk. A call of fewer tokens
than a chunk is taken for a chunk as long as the call, so that one token costs one step and is not padded.
"""

from collections.abc import Callable
from typing import Any

from ._scan_inputs import apart


def chunk_length(tokens: Any, most: int) -> Any:
    """Return the tokens in a chunk of a call: `most`, or all of them where they are fewer."""
    import torch

    return torch.sym_min(tokens, most)


def unless_scripted(scanned: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `otherwise` for the TorchScript exporter, which has no `scan`."""
    import torch

    def chosen(*given: Any) -> Any:
        return otherwise(*given) if torch.jit.is_tracing() else scanned(*given)

    return chosen


def scan_chunks(
    step: Callable[[Any, tuple[Any, ...]], tuple[Any, Any]], state: Any, parts: tuple[Any, ...], most: int
) -> tuple[Any, Any]:
    """Return `(batch, tokens, ..., size)` and the last state of what goes through the tokens in chunks.

    Args:
        step: takes the state and the parts of a chunk, `(batch, ..., chunk, size)`, and returns the next state and what
            the chunk gives, of such axes. Zeros are padding behind the last token, and must not change the state.
        state: before the first token; float32.
        parts: `(batch, tokens, ..., size)`, each of as many axes.
        most: the tokens in a chunk, see `chunk_length`.
    """
    from torch._higher_order_ops.scan import scan

    tokens = parts[0].shape[1]
    chunk = chunk_length(tokens, most)
    # One token is one chunk, and any other call two at least, which may be one too many: torch takes an axis that is 1
    # in the sample for 1.
    count = (tokens - 2) // chunk + 2
    chunks = tuple(apart(_chunked(part, count, chunk)) for part in parts)
    last, outputs = scan(step, apart(state), chunks)
    return outputs.movedim(-2, 2).movedim(0, 1).flatten(1, 2)[:, :tokens], last


def _chunked(part: Any, count: Any, chunk: Any) -> Any:
    """Return `(batch, tokens, ..., size)` as `(chunks, batch, ..., chunk, size)`."""
    import torch

    padding = (0, 0) * (part.ndim - 2)
    whole = torch.nn.functional.pad(part, (*padding, 0, count * chunk - part.shape[1]))
    return whole.unflatten(1, (count, chunk)).movedim(1, 0).movedim(2, -2)
