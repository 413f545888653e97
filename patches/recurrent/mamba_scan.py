"""A Mamba layer begins from nothing or takes one token: two branches of Python, and a loop over the sampled length.

Symptom: one graph is never right for both the prompt and the tokens behind it. With a filled cache a sample of several
tokens ignores the state or is refused; the number of tokens is unrolled into the graph, and so is fixed.
Cause: `if cache_params.has_previous_state: one token, else: a prompt`, and `for i in range(seq_len)`.
What is done: while it is traced, a layer of this shape (Mamba, FalconMamba, Jamba) continues from its states for any
number of tokens; zeros are an empty cache. The convolution has its state to the left of its inputs. The selective scan
is torch's `scan`, which becomes ONNX' `Scan`: every channel has `state_size` decays of its own, so the form that Mamba2
has needs tokens x tokens x channels x states numbers. Padding is zeroed, whatever the batch. torch lowers `scan` to
ONNX since 2.9; before, the scan doubles its reach in each of 20 steps (see `_parallel_scan`), which takes tokens x
channels x states numbers, as upstream does.
Can go: when upstream continues from a state for any number of tokens, without a loop in Python.
"""

from collections.abc import Callable, Iterator
from typing import Any

from exportcompat.registry import PatchingSpec

from ._scan_inputs import apart
from ._selective_scan import by_parallel_scan, by_scan


def patch_mamba_mixer(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of a mixer of Mamba's shape continue from its states while it is traced."""
    return _patch_mixer(original, by_scan)


def patch_mamba_mixer_without_scan(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same for a torch that cannot put `scan` into ONNX."""
    return _patch_mixer(original, by_parallel_scan)


def _patch_mixer(original: Callable[..., Any], recur: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    import torch

    from ._states import causal_convolution, read_states, store_states, traced_mixer, without_padding

    def traced(self: Any, hidden: Any, cache: Any, mask: Any) -> Any:
        is_rewritten = not hasattr(self, "slow_forward")
        if is_rewritten and self.in_proj.bias is not None:
            raise ValueError(
                f"spec 'mamba-scan': {type(self).__name__} has a bias in in_proj, which padded tokens get "
                "from transformers 5.15 on; that is not handled. Exclude the id, or export with transformers 5.14"
            )
        conv_state, state = read_states(cache, self.layer_idx)
        inputs, gate = self.in_proj(hidden).chunk(2, dim=-1)
        outputs, conv_state = causal_convolution(self.conv1d, without_padding(inputs, mask).transpose(1, 2), conv_state)
        inputs = without_padding(self.act(outputs).transpose(1, 2), mask)
        outputs, state = _scanned(self, inputs, state, recur)
        store_states(cache, self.layer_idx, conv_state, state)
        gate = torch.nn.functional.silu(gate) if is_rewritten else self.act(gate)
        return self.out_proj(((outputs + inputs * self.D) * gate).to(hidden.dtype))

    return traced_mixer(original, traced)


def _scanned(mixer: Any, inputs: Any, state: Any, recur: Callable[..., tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return `(batch, tokens, channels)` and the last state of the selective scan that begins from `state`."""
    import torch

    # A parameter needs a gradient; see `apart`.
    decay = -torch.exp(mixer.A_log.detach().float())
    if state is None:
        state = inputs.new_zeros(inputs.shape[0], *decay.shape)
    tokens = tuple(apart(part.transpose(0, 1), torch.float32) for part in (inputs, *_selected(mixer, inputs)))
    last, outputs = recur(decay, apart(state, torch.float32), tokens)
    return outputs.transpose(0, 1), last.to(state.dtype)


def _selected(mixer: Any, inputs: Any) -> tuple[Any, Any, Any]:
    """Return what the inputs choose: time steps `(batch, tokens, channels)`, and what enters and leaves the state."""
    import torch

    sizes = [mixer.time_step_rank, mixer.ssm_state_size, mixer.ssm_state_size]
    time, enter, leave = mixer.x_proj(inputs).split(sizes, dim=-1)
    if hasattr(mixer, "dt_layernorm"):
        time, enter, leave = mixer.dt_layernorm(time), mixer.b_layernorm(enter), mixer.c_layernorm(leave)
    elif hasattr(mixer, "rms_eps"):
        time, enter, leave = (_scaled(part, mixer.rms_eps) for part in (time, enter, leave))
    return torch.nn.functional.softplus(mixer.dt_proj(time)), enter, leave


def _scaled(part: Any, eps: float) -> Any:
    """Return `part` divided by the root of its mean square, as FalconMamba does."""
    import torch

    wide = part.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(part.dtype)


_MODELS = "transformers.models"
_MIXERS = {
    "mamba": "mamba.modeling_mamba:MambaMixer",
    "falcon_mamba": "falcon_mamba.modeling_falcon_mamba:FalconMambaMixer",
    "jamba": "jamba.modeling_jamba:JambaMambaMixer",
}


_WAYS = {"torch>=2.9": ("patch_mamba_mixer", ("scan",)), "torch>=2.6,<2.9": ("patch_mamba_mixer_without_scan", ())}


def _specs(releases: str, models: tuple[str, ...]) -> Iterator[PatchingSpec]:
    for torch, (replacement, operators) in _WAYS.items():
        yield PatchingSpec(
            id="mamba-scan",
            targets=tuple(f"{_MODELS}.{_MIXERS[model]}.forward" for model in models),
            replacement=f"{__name__}:{replacement}",
            requires=(f"transformers{releases}", torch),
            reason="A Mamba layer ignores its state or takes one token, by ifs and a loop on the sampled size: wrong.",
            upstream=(
                "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/mamba/modeling_mamba.py",
            ),
            proofs=models,
            defect=(r"cache_params",),
            higher_order=operators,
            kind="wrap",
        )


SPECS = (
    # FalconMamba is younger than 4.44, and a spec with a target that does not exist is not applied at all.
    *_specs(">=4.44,<4.45", ("mamba", "jamba")),
    *_specs(">=4.45", ("mamba", "falcon_mamba", "jamba")),
)
