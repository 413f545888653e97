"""Caches of models whose layers have states, each of a class of its own in older releases, are no pytree nodes.

Symptom: `torch.export` refuses an `Lfm2HybridConvCache`, `FalconHybridMambaAttentionDynamicCache`,
`ZambaHybridDynamicCache`, `Zamba2HybridDynamicCache`, `NemotronHHybridDynamicCache`, `Qwen3NextDynamicCache`, ...
among the inputs.
What is done: inside the scope the leaves are, layer by layer, `0.conv_state` and `0.recurrent_state`, or `0.key` and
`0.value` for attention; what a layer does not have yet, or never has, is left out. What else the cache has (types of
layers) is kept for a round trip, and is no part of what is compared.
Can go: with transformers 5.4 (OLMo-hybrid 5.14); later these models have a `DynamicCache` (see `dynamic-cache-pytree`).
"""

from collections.abc import Callable, Iterator
from typing import Any

from exportcompat.registry import PatchingSpec

from ._state_lists import node_of_state_lists

_ATTENTION = {"key": "key_cache", "value": "value_cache"}
_MAMBA = {**_ATTENTION, "conv_state": "conv_states", "recurrent_state": "ssm_states"}
_DELTA = {**_ATTENTION, "conv_state": "conv_states", "recurrent_state": "recurrent_states"}
_APART = {**_ATTENTION, **{f"conv_state_{name}": f"conv_states_{name}" for name in "qkv"}}
_CONVOLUTION = {**_ATTENTION, "conv_state": "conv_cache"}


def _place(model: str, cls: str) -> str:
    return f"transformers.models.{model}.modeling_{model}:{cls}"


def _factory(model: str, cls: str, places: dict[str, str], **options: Any) -> Callable[[Any], dict[str, Any]]:
    def arguments(original: Any) -> dict[str, Any]:
        """Return the arguments of `torch.utils._pytree.register_pytree_node`."""
        return node_of_state_lists(_place(model, cls), places, **options)

    return arguments


def _unread(cache: Any, index: int) -> Iterator[str]:
    """Yield what a layer of LFM2 has and does not read: the state of a convolution beside attention."""
    if cache.layer_types[index] == "full_attention":
        yield "conv_state"


node_of_falcon_h1_cache = _factory("falcon_h1", "FalconHybridMambaAttentionDynamicCache", _MAMBA)
node_of_lfm2_cache = _factory("lfm2", "Lfm2HybridConvCache", _CONVOLUTION, without=_unread)
node_of_lfm2_moe_cache = _factory("lfm2_moe", "Lfm2MoeHybridConvCache", _CONVOLUTION, without=_unread)
node_of_nemotron_h_cache = _factory("nemotron_h", "NemotronHHybridDynamicCache", _MAMBA)
node_of_olmo_hybrid_cache = _factory(
    "olmo_hybrid", "OlmoHybridDynamicCache", {**_APART, "recurrent_state": "recurrent_states"}
)
node_of_qwen3_next_cache = _factory("qwen3_next", "Qwen3NextDynamicCache", _DELTA)
node_of_qwen3_5_cache = _factory("qwen3_5", "Qwen3_5DynamicCache", _DELTA)
node_of_qwen3_5_moe_cache = _factory("qwen3_5_moe", "Qwen3_5MoeDynamicCache", _DELTA)
node_of_zamba_cache = _factory("zamba", "ZambaHybridDynamicCache", _MAMBA)
node_of_zamba2_cache = _factory("zamba2", "Zamba2HybridDynamicCache", _MAMBA)


def _spec(model: str, cls: str, requires: str, proof: str, defect: tuple[str, ...]) -> PatchingSpec:
    return PatchingSpec(
        id=f"{model.replace('_', '-')}-cache-pytree",
        targets=(f"pytree({_place(model, cls)})",),
        replacement=f"{__name__}:node_of_{model}_cache",
        requires=(requires, "torch>=2.6"),
        reason="The cache of a model whose layers have states cannot be an input or an output of a graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/qwen3_next/modeling_qwen3_next.py",
            "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/lfm2/modeling_lfm2.py",
        ),
        proofs=(proof,),
        defect=defect,
        kind="pytree",
    )


_HOLDS_MAMBA = r"self\.conv_states\b", r"self\.ssm_states\b"
_HOLDS_DELTA = r"self\.conv_states\b", r"self\.recurrent_states\b"
_HOLDS_CONVOLUTION = (r"self\.conv_cache\b",)

SPECS = (
    _spec(
        "falcon_h1",
        "FalconHybridMambaAttentionDynamicCache",
        "transformers>=4.53,<5.5",
        "falcon_h1",
        _HOLDS_MAMBA,
    ),
    _spec("lfm2", "Lfm2HybridConvCache", "transformers>=4.54,<5.5", "lfm2_unpadded", _HOLDS_CONVOLUTION),
    _spec("lfm2_moe", "Lfm2MoeHybridConvCache", "transformers>=5.0,<5.5", "lfm2_moe", _HOLDS_CONVOLUTION),
    _spec("nemotron_h", "NemotronHHybridDynamicCache", "transformers>=5.3,<5.5", "nemotron_h", _HOLDS_MAMBA),
    _spec(
        "olmo_hybrid",
        "OlmoHybridDynamicCache",
        "transformers>=5.3,<5.15",
        "olmo_hybrid",
        (r"self\.conv_states_q\b", r"self\.recurrent_states\b"),
    ),
    _spec("qwen3_next", "Qwen3NextDynamicCache", "transformers>=4.57,<5.5", "qwen3_next", _HOLDS_DELTA),
    _spec("qwen3_5", "Qwen3_5DynamicCache", "transformers>=5.2,<5.5", "qwen3_5_text", _HOLDS_DELTA),
    _spec("qwen3_5_moe", "Qwen3_5MoeDynamicCache", "transformers>=5.2,<5.5", "qwen3_5_moe_text", _HOLDS_DELTA),
    _spec("zamba", "ZambaHybridDynamicCache", "transformers>=4.57,<5.0", "zamba", _HOLDS_MAMBA),
    _spec("zamba2", "Zamba2HybridDynamicCache", "transformers>=4.49,<5.5", "zamba2", _HOLDS_MAMBA),
)
