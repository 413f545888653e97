"""A Mamba2 layer begins from nothing or takes one token, and pads its tokens to chunks of the sampled length.

Symptom: one graph is never right for both the prompt and the tokens behind it.
Cause: `if cache_params.has_previous_state: one token, else: a prompt`; the padding and the number of chunks too.
What is done: while it is traced, a layer continues from its states for any number of tokens; zeros are an empty cache.
Chunks of 64 tokens go through torch's `scan`; see `_ssd_chunks`. Before torch 2.9, which cannot put that into ONNX, and
in a TorchScript graph all tokens are one chunk; see `_ssd_single_chunk`. Padding is always zeroed; to 5.14 upstream did
so for more than one sequence only.
Can go: when upstream continues from a state for any number of tokens.
"""

from collections.abc import Callable, Iterator
from typing import Any

from exportcompat.registry import PatchingSpec

_Scan = Callable[..., tuple[Any, Any]]
"""Takes a mixer, the inputs and time steps, and a state; see `_ssd_single_chunk`."""


def patch_mamba2_mixer(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of a mixer of Mamba2's shape continue from its states while it is traced."""
    return _patch_mixer(original, _step_limits, _by_chunks())


def patch_mamba2_mixer_without_scan(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same for a torch that cannot put `scan` into ONNX."""
    return _patch_mixer(original, _step_limits, _by_one_chunk())


def patch_mamba2_mixer_with_least_step(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same for a mixer whose time steps have a least, and no largest (Zamba2, Nemotron-H)."""
    return _patch_mixer(original, _least_step, _by_chunks())


def patch_mamba2_mixer_with_least_step_without_scan(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same for a torch that cannot put `scan` into ONNX."""
    return _patch_mixer(original, _least_step, _by_one_chunk())


def _step_limits(mixer: Any) -> tuple[Any, Any]:
    limits: tuple[Any, Any] = mixer.time_step_limit
    return limits


def _least_step(mixer: Any) -> tuple[Any, Any]:
    return mixer.time_step_min, None


def _by_chunks() -> _Scan:
    from ._chunked_scan import unless_scripted
    from ._ssd_chunks import ssd_of_mixer

    return unless_scripted(ssd_of_mixer, _by_one_chunk())


def _by_one_chunk() -> _Scan:
    from ._ssd_single_chunk import ssd_single_chunk

    return ssd_single_chunk


def _patch_mixer(
    original: Callable[..., Any], limits: Callable[[Any], tuple[Any, Any]], scanned: _Scan
) -> Callable[..., Any]:
    import torch

    from ._states import causal_convolution, read_states, store_states, traced_mixer, without_padding

    def traced(self: Any, hidden: Any, cache: Any, mask: Any) -> Any:
        conv_state, state = read_states(cache, self.layer_idx)
        gate, inputs, time = _projected(self, without_padding(hidden, mask))
        outputs, conv_state = causal_convolution(self.conv1d, inputs.transpose(1, 2), conv_state)
        inputs = without_padding(self.act(outputs).transpose(1, 2), mask)
        time = torch.nn.functional.softplus(time.float() + self.dt_bias).clamp(*limits(self))
        outputs, state = scanned(self, inputs, time, state)
        store_states(cache, self.layer_idx, conv_state, state)
        # Falcon-H1 can do without the norm.
        has_norm = getattr(self, "mamba_rms_norm", True)
        outputs = self.norm(outputs, gate) if has_norm else outputs * torch.nn.functional.silu(gate)
        return self.out_proj(outputs.to(hidden.dtype))

    return traced_mixer(original, traced)


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


_WAYS = {"torch>=2.9": ("", ("scan",)), "torch>=2.6,<2.9": ("_without_scan", ())}
"""What the name of a replacement ends with, and the higher-order operators of its graph, by torch."""


def _specs(
    name: str, releases: str, models: tuple[str, ...], proof: str, replacement: str = "patch_mamba2_mixer"
) -> Iterator[PatchingSpec]:
    for torch, (ending, operators) in _WAYS.items():
        yield PatchingSpec(
            id=name,
            targets=tuple(f"{_MODELS}.{model}.modeling_{model}:{_MIXERS[model]}.forward" for model in models),
            replacement=f"{__name__}:{replacement}{ending}",
            requires=(f"transformers{releases}", torch),
            reason="A Mamba2 layer ignores its state or takes one token, by ifs on the sampled length: wrong.",
            upstream=(
                "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/mamba2/modeling_mamba2.py",
                "https://github.com/huggingface/transformers/blob/v5.14.1/src/transformers/models/bamba/modeling_bamba.py",
            ),
            proofs=(proof,),
            defect=(r"cache_params",),
            higher_order=operators,
            kind="wrap",
        )


_HYBRIDS = ("bamba", "granitemoehybrid", "falcon_h1")

# A spec with a target that does not exist is not applied at all; from 5.15 on hybrids continue by themselves.
SPECS = (
    *_specs("mamba2-scan", ">=4.48", ("mamba2",), "mamba2"),
    *_specs("mamba2-hybrid-scan", ">=4.48,<4.52", _HYBRIDS[:1], "bamba"),
    *_specs("mamba2-hybrid-scan", ">=4.52,<4.53", _HYBRIDS[:2], "bamba"),
    *_specs("mamba2-hybrid-scan", ">=4.53,<5.15", _HYBRIDS, "falcon_h1"),
    *_specs("zamba2-scan", ">=4.49,<5.3", ("zamba2",), "zamba2", "patch_mamba2_mixer_with_least_step"),
    *_specs("zamba2-scan", ">=5.3,<5.15", ("nemotron_h", "zamba2"), "zamba2", "patch_mamba2_mixer_with_least_step"),
)
