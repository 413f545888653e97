"""The selective scan of Mamba: every channel has a decay for each number of its state."""

from typing import Any


def by_scan(decay: Any, state: Any, tokens: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return the last state, and `(tokens, batch, channels)`.

    Args:
        decay: `(channels, state_size)`, or `(batch, channels, state_size)`, less than 0.
        state: `(batch, channels, state_size)`.
        tokens: values and time steps `(tokens, batch, channels)`, what enters and leaves `(tokens, batch, state_size)`.
    """
    from torch._higher_order_ops.scan import scan

    def step(state: Any, token: tuple[Any, ...]) -> tuple[Any, Any]:
        kept, entered, leave = _parts(decay, token)
        state = kept * state + entered
        return state, (state * leave).sum(-1)

    last, outputs = scan(step, state, tokens)
    return last, outputs


def by_parallel_scan(decay: Any, state: Any, tokens: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return the same, of the same, without `scan`."""
    from ._parallel_scan import parallel_scan

    kept, entered, leave = _parts(decay, tokens)
    states = parallel_scan(kept, entered, state)
    return states[-1], (states * leave).sum(-1)


def _parts(decay: Any, token: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Return what is kept of a state, what enters it and what leaves it, for one token or several."""
    import torch

    value, time, enter, leave = token
    return (
        torch.exp(decay * time[..., None]),
        (time * value)[..., None] * enter[..., None, :],
        leave[..., None, :],
    )
