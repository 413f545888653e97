"""The selective scan of Mamba2 in chunks of tokens: see `_decayed_attention`."""

from typing import Any


def ssd_in_chunks(
    values: Any, time: Any, rates: Any, enter: Any, leave: Any, skipped: Any, state: Any
) -> tuple[Any, Any]:
    """Return `(batch, tokens, heads, head_dim)` and the last state of the scan that begins from `state`, float32.

    Args:
        values: `(batch, tokens, heads, head_dim)`.
        time: time steps, `(batch, tokens, heads)`, at least 0.
        rates: what the logarithm of a decay is for a step of 1, `(heads,)`, at most 0.
        enter: `(batch, tokens, groups, state_size)`; a group is of heads that follow one another.
        leave: the same shape.
        skipped: share of the values that goes past the scan, `(heads,)`; None for none.
        state: `(batch, heads, head_dim, state_size)`; None for zeros.
    """
    from ._decayed_attention import decayed_attention

    groups = enter.shape[2]
    values, time, enter, leave = (part.float() for part in (values, time, enter, leave))
    if state is None:
        state = values.new_zeros(values.shape[0], *values.shape[2:], enter.shape[-1])
    outputs, last = decayed_attention(
        leave[:, :, :, None],
        enter[:, :, :, None],
        (values * time[..., None]).unflatten(2, (groups, -1)),
        (time.double() * rates.double()).unflatten(2, (groups, -1)),
        state.unflatten(1, (groups, -1)),
    )
    outputs = outputs.flatten(2, 3)
    return outputs if skipped is None else outputs + values * skipped[:, None], last.flatten(1, 2)


def ssd_of_mixer(mixer: Any, inputs: Any, time: Any, state: Any) -> tuple[Any, Any]:
    """Return what `_ssd_single_chunk.ssd_single_chunk` returns, of the same arguments."""
    import torch

    size = mixer.n_groups * mixer.ssm_state_size
    values, enter, leave = inputs.split([mixer.intermediate_size, size, size], dim=-1)
    outputs, last = ssd_in_chunks(
        values.unflatten(-1, (mixer.num_heads, -1)),
        time,
        -torch.exp(mixer.A_log.double()),
        enter.unflatten(-1, (mixer.n_groups, -1)),
        leave.unflatten(-1, (mixer.n_groups, -1)),
        mixer.D,
        state,
    )
    return outputs.flatten(2), last if state is None else last.to(state.dtype)
