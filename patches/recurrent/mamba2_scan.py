"""A Mamba2 layer begins from nothing or takes one token, and pads its tokens to chunks of the sampled length.

Symptom: one graph is never right for both the prompt and the tokens behind it.
Cause: `if cache_params.has_previous_state: one token, else: a prompt`; the padding and the number of chunks too.
What is done: while it is traced, a layer continues from its states for any number of tokens; zeros are an empty cache.
All tokens are one chunk; see `_ssd_single_chunk`. Padding is always zeroed; to 5.14 upstream did so for more than one
sequence only.
Can go: when upstream continues from a state for any number of tokens.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def continuing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward` of a mixer of Mamba2's shape that continues from its states while it is traced."""
    return _continuing(original, lambda mixer: mixer.time_step_limit)


def continuing_from_least(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same for a mixer whose time steps have a least, and no largest (Zamba2, Nemotron-H)."""
    return _continuing(original, lambda mixer: (mixer.time_step_min, None))


def _continuing(original: Callable[..., Any], limits: Callable[[Any], tuple[Any, Any]]) -> Callable[..., Any]:
    import torch

    from ._ssd_single_chunk import scanned
    from ._states import convolved, keep, states, unpadded, while_traced

    def traced(self: Any, hidden: Any, cache: Any, mask: Any) -> Any:
        conv_state, state = states(cache, self.layer_idx)
        gate, inputs, time = _projected(self, unpadded(hidden, mask))
        outputs, conv_state = convolved(self.conv1d, inputs.transpose(1, 2), conv_state)
        inputs = unpadded(self.act(outputs).transpose(1, 2), mask)
        time = torch.nn.functional.softplus(time.float() + self.dt_bias).clamp(*limits(self))
        outputs, state = scanned(self, inputs, time, state)
        keep(cache, self.layer_idx, conv_state, state)
        # Falcon-H1 can do without the norm.
        has_norm = getattr(self, "mamba_rms_norm", True)
        outputs = self.norm(outputs, gate) if has_norm else outputs * torch.nn.functional.silu(gate)
        return self.out_proj(outputs.to(hidden.dtype))

    return while_traced(original, traced)


def _projected(mixer: Any, hidden: Any) -> Any:
    """Return the gate, the inputs of the convolution and the time steps, `(batch, tokens, channels or heads)` each."""
    # Falcon-H1 has two factors; Zamba2 and Nemotron-H leave room for an MLP that they do not have.
    projected = mixer.in_proj(hidden * getattr(mixer, "ssm_in_multiplier", 1)) * getattr(mixer, "mup_vector", 1)
    sizes = [mixer.intermediate_size, mixer.conv_dim, mixer.num_heads]
    return projected[..., -sum(sizes) :].split(sizes, dim=-1)


_MODELS = "transformers.models"
_MIXERS = {
    "bamba": "BambaMixer",
    "granitemoehybrid": "GraniteMoeHybridMambaLayer",
    "falcon_h1": "FalconH1Mixer",
    "mamba2": "Mamba2Mixer",
    "nemotron_h": "NemotronHMamba2Mixer",
    "zamba2": "Zamba2MambaMixer",
}


def _spec(
    name: str, releases: str, models: tuple[str, ...], proof: str, replacement: str = "continuing"
) -> PatchingSpec:
    return PatchingSpec(
        id=name,
        targets=tuple(f"{_MODELS}.{model}.modeling_{model}:{_MIXERS[model]}.forward" for model in models),
        replacement=f"{__name__}:{replacement}",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="A Mamba2 layer ignores its state or takes one token, by ifs on the sampled length: wrong.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/mamba2/modeling_mamba2.py",
            "https://github.com/huggingface/transformers/blob/v5.14.1/src/transformers/models/bamba/modeling_bamba.py",
        ),
        proofs=(proof,),
        defect=(r"cache_params",),
        kind="wrap",
    )


_HYBRIDS = ("bamba", "granitemoehybrid", "falcon_h1")

# A spec with a target that does not exist is not applied at all; from 5.15 on hybrids continue by themselves.
SPECS = (
    _spec("mamba2-scan", ">=4.48", ("mamba2",), "mamba2"),
    _spec("mamba2-hybrid-scan", ">=4.48,<4.52", _HYBRIDS[:1], "bamba"),
    _spec("mamba2-hybrid-scan", ">=4.52,<4.53", _HYBRIDS[:2], "bamba"),
    _spec("mamba2-hybrid-scan", ">=4.53,<5.15", _HYBRIDS, "falcon_h1"),
    _spec("zamba2-scan", ">=4.49,<5.3", ("zamba2",), "zamba2", "continuing_from_least"),
    _spec("zamba2-scan", ">=5.3,<5.15", ("nemotron_h", "zamba2"), "zamba2", "continuing_from_least"),
)
