"""Zamba's Mamba layers have heads, and the branches of a Mamba layer: see `mamba-scan`.

Symptom: `tracing inferred a static shape of 3 for dimension inputs['input_ids'].shape[1]`.
Cause: a prompt and one token go different ways, and a prompt is a loop over its tokens.
What is done: while it is traced, a layer continues from its states for any number of tokens, each head as a row of the
selective scan of `mamba-scan`.
Can go: as `mamba-scan` can.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

from ._scan_inputs import apart
from ._selective_scan import by_parallel_scan, by_scan


def patch_zamba_mixer(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `ZambaMambaMixer.forward` continue from its states while it is traced."""
    return _patch_mixer(original, by_scan)


def patch_zamba_mixer_without_scan(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same for a torch that cannot put `scan` into ONNX."""
    return _patch_mixer(original, by_parallel_scan)


def _patch_mixer(original: Callable[..., Any], recur: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    import torch

    from ._states import causal_convolution, read_states, store_states, traced_mixer, without_padding

    def traced(self: Any, hidden: Any, cache: Any, mask: Any) -> Any:
        conv_state, state = read_states(cache, self.layer_idx)
        made = self.in_proj(without_padding(hidden, mask)).unflatten(-1, (self.intermediate_size, 2))
        inputs, gate = made[..., 0], made[..., 1]
        outputs, conv_state = causal_convolution(self.conv1d, inputs.transpose(1, 2), conv_state)
        inputs = without_padding(self.act(outputs).transpose(1, 2), mask)
        outputs, state = _scanned(self, inputs.unflatten(-1, (self.n_mamba_heads, -1)), state, recur)
        store_states(cache, self.layer_idx, conv_state, state)
        gate = torch.nn.functional.silu(gate)
        return self.out_proj(((outputs + inputs * self.D.flatten()) * gate).to(hidden.dtype))

    return traced_mixer(original, traced)


def _scanned(mixer: Any, inputs: Any, state: Any, recur: Callable[..., tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return `(batch, tokens, channels)` and the last state, `(batch, heads, head_dim, state_size)`.

    Args:
        mixer: the layer.
        inputs: `(batch, tokens, heads, head_dim)`.
        state: that of the scan's beginning; None for zeros.
        recur: the scan.
    """
    import torch

    # A parameter needs a gradient; see `apart`.
    decay = -torch.exp(mixer.A_log.detach().float())
    if state is None:
        state = inputs.new_zeros(inputs.shape[0], *decay.shape)
    rows = decay.expand(inputs.shape[0], *decay.shape).flatten(0, 1).clone()
    tokens = tuple(_by_token(part) for part in (inputs, *_selected(mixer, inputs)))
    last, outputs = recur(rows, apart(state.flatten(0, 1), torch.float32), tokens)
    outputs = outputs.unflatten(1, (inputs.shape[0], mixer.n_mamba_heads)).permute(1, 0, 2, 3).flatten(2)
    return outputs, last.unflatten(0, (inputs.shape[0], mixer.n_mamba_heads)).to(state.dtype)


def _by_token(part: Any) -> Any:
    """Return `(tokens, batch * heads, ...)` of `(batch, tokens, heads, ...)`."""
    import torch

    return apart(part.transpose(0, 1).flatten(1, 2), torch.float32)


def _selected(mixer: Any, inputs: Any) -> tuple[Any, Any, Any]:
    """Return what the inputs choose: time steps, and what enters and leaves, each `(batch, tokens, heads, ...)`."""
    import torch

    sizes = [mixer.time_step_rank, mixer.ssm_state_size, mixer.ssm_state_size]
    time, enter, leave = torch.einsum("blhd,hrd->blhr", inputs, mixer.x_proj_weight).split(sizes, dim=-1)
    time = torch.einsum("blhr,hdr->blhd", time, mixer.dt_proj_weight) + mixer.dt_proj_bias
    return torch.nn.functional.softplus(time), enter, leave


_WAYS = {"torch>=2.9": ("patch_zamba_mixer", ("scan",)), "torch>=2.6,<2.9": ("patch_zamba_mixer_without_scan", ())}

_RANGES = ("transformers>=5.24", "transformers>=4.57,<5.0")

SPECS = tuple(
    PatchingSpec(
        id="zamba-scan",
        targets=("transformers.models.zamba.modeling_zamba:ZambaMambaMixer.forward",),
        replacement=f"{__name__}:{replacement}",
        requires=(releases, torch),
        reason="Zamba's Mamba layers go token by token in a loop over the sample's: a graph for one length.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/models/zamba/modeling_zamba.py",
        ),
        proofs=("zamba",),
        higher_order=operators,
        kind="wrap",
    )
    for releases in _RANGES
    for torch, (replacement, operators) in _WAYS.items()
)
