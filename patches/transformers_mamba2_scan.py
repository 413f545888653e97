"""A Mamba2 layer begins from nothing or takes one token, and pads its tokens to chunks of the sampled length.

Symptom: one graph is never right for both the prompt and the tokens behind it.
Cause: `if cache_params.has_previous_state: one token, else: a prompt`; the padding and the number of chunks too.
What is done: while it is traced, a layer continues from its states for any number of tokens; zeros are an empty cache.
All tokens are one chunk: each head has one decay for a token, so what token s leaves in token t is a matrix of tokens x
tokens, as in attention. Decays are differences of sums, never negative powers, and the sums are in double precision.
Padding is always zeroed; to 5.14 upstream did so for more than one sequence only.
Can go: when upstream continues from a state for any number of tokens.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def continuing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward` of a mixer of Mamba2's shape that continues from its states while it is traced."""
    from ._linear_states import convolved, keep, states, unpadded, while_traced

    def traced(self: Any, hidden: Any, cache: Any, mask: Any) -> Any:
        conv_state, state = states(cache, self.layer_idx)
        projected = self.in_proj(unpadded(hidden, mask))
        gate, inputs, time = projected.split([self.intermediate_size, self.conv_dim, self.num_heads], dim=-1)
        outputs, conv_state = convolved(self.conv1d, inputs.transpose(1, 2), conv_state)
        inputs = unpadded(self.act(outputs).transpose(1, 2), mask)
        outputs, state = _scanned(self, inputs, time, state)
        keep(cache, self.layer_idx, conv_state, state)
        return self.out_proj(self.norm(outputs, gate).to(hidden.dtype))

    return while_traced(original, traced)


def _scanned(mixer: Any, inputs: Any, time: Any, state: Any) -> tuple[Any, Any]:
    """Return `(batch, tokens, channels)` and the last state of the scan that begins from `state`."""
    import torch

    values, enter, leave = _parts(mixer, inputs)
    time = torch.nn.functional.softplus(time.float() + mixer.dt_bias).clamp(*mixer.time_step_limit).transpose(1, 2)
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


SPECS = (
    PatchingSpec(
        id="mamba2-continued-scan",
        targets=("transformers.models.mamba2.modeling_mamba2:Mamba2Mixer.forward",),
        replacement=f"{__name__}:continuing",
        requires=("transformers>=4.48", "torch>=2.6"),
        reason="A Mamba2 layer ignores its state or takes one token, by ifs on the sampled length: wrong.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/mamba2/modeling_mamba2.py",
        ),
        proofs=("mamba2",),
        defect=(r"cache_params",),
        kind="wrap",
    ),
)
