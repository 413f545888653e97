"""The selective scan of Mamba2, as one chunk that holds all tokens.

Each head has one decay for a token, so what token s leaves in token t is a matrix of tokens x tokens, as in attention.
Decays are differences of sums, never negative powers, and the sums are in double precision.
Source: Mamba2, https://arxiv.org/abs/2405.21060, section 6.
"""

from typing import Any


def ssd_single_chunk(mixer: Any, inputs: Any, time: Any, state: Any) -> tuple[Any, Any]:
    """Return `(batch, tokens, channels)` and the last state of the scan that begins from `state`.

    Args:
        mixer: a layer of Mamba2's shape.
        inputs: values, and what enters and leaves the state, `(batch, tokens, channels)`.
        time: time steps, `(batch, tokens, heads)`, more than 0.
        state: `(batch, heads, head_dim, state_size)`; None for zeros.
    """
    import torch

    values, enter, leave = _parts(mixer, inputs)
    time = time.transpose(1, 2)
    sums = torch.cumsum(time.double() * -torch.exp(mixer.A_log.double())[:, None], -1)
    entered = values * time[..., None]
    before = entered.new_zeros(*entered.shape[:2], mixer.head_dim, mixer.ssm_state_size) if state is None else state
    # Axes: batch, heads, tokens, and what the name says; the state is batch, heads, head_dim, state_size.
    outputs = (leave @ enter.transpose(-1, -2) * _decays(sums)) @ entered
    outputs = outputs + torch.exp(sums).float()[..., None] * (leave @ before.float().transpose(-1, -2))
    outputs = outputs + values * mixer.D[:, None, None]
    remaining = torch.exp(sums[..., -1:] - sums).float()[..., None]
    last = before.float() * torch.exp(sums[..., -1:]).float()[..., None]
    last = last + (entered * remaining).transpose(-1, -2) @ enter
    return outputs.transpose(1, 2).flatten(2), last if state is None else last.to(state.dtype)


def _parts(mixer: Any, inputs: Any) -> tuple[Any, Any, Any]:
    """Return values, and what enters and leaves the state, `(batch, heads, tokens, head_dim or state_size)` each."""
    size = mixer.n_groups * mixer.ssm_state_size
    values, enter, leave = inputs.float().split([mixer.intermediate_size, size, size], dim=-1)
    repeats = mixer.num_heads // mixer.n_groups
    groups = (part.unflatten(-1, (mixer.n_groups, -1)).repeat_interleave(repeats, 2) for part in (enter, leave))
    enter, leave = (part.transpose(1, 2) for part in groups)
    return values.unflatten(-1, (mixer.num_heads, -1)).transpose(1, 2), enter, leave


def _decays(sums: Any) -> Any:
    """Return how much of what entered at token s is left at token t, `(batch, heads, t, s)`."""
    import torch

    differences = sums[..., :, None] - sums[..., None, :]
    places = torch.arange(sums.shape[-1], device=sums.device)
    is_later = places[:, None] >= places
    return torch.exp(differences.masked_fill(~is_later, -torch.inf)).float()
