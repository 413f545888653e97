"""Whether layers without attention see a mask is decided by ifs on the cache and on what the mask holds.

Symptom: Jamba, Bamba, Granite MoE hybrid, Falcon-H1, Nemotron-H, Qwen3-Next, Qwen3.5, LFM2: no graph
(`GuardOnDataDependentSymNode`), or one that lets padding into the states: a sample with a past has no mask, so the
graph has none for a prompt either.
Cause: `if cache_position[0] > 0 or torch.all(attention_mask == 1): None`; to 5.14 an if on the cache.
What is done: while it is traced, these layers get the mask; they take the columns of the new tokens.
Can go: when upstream hands the mask on in every trace.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def always(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method `_update_mamba_mask`, made to hand the mask on while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    def _update_mamba_mask(self: Any, attention_mask: Any, *args: Any, **kwargs: Any) -> Any:
        return attention_mask if is_traced(attention_mask) else original(self, attention_mask, *args, **kwargs)

    return _update_mamba_mask


def always_created(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `create_recurrent_attention_mask`, made to hand the mask on while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    def create_recurrent_attention_mask(
        config: Any, inputs_embeds: Any, attention_mask: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if is_traced(inputs_embeds) and attention_mask is not None and attention_mask.ndim == 2:
            return attention_mask
        return original(config, inputs_embeds, attention_mask, *args, **kwargs)

    return create_recurrent_attention_mask


_UPSTREAM = (
    "https://github.com/huggingface/transformers/blob/v5.5.4/src/transformers/models/jamba/modeling_jamba.py",
    "https://github.com/huggingface/transformers/blob/v5.14.1/src/transformers/masking_utils.py",
)
_REASON = "Whether layers with states see the padding is an if on the cache and on the mask: no graph, or a wrong one."

_METHODS = {
    "bamba": "BambaModel._update_mamba_mask",
    "granitemoehybrid": "GraniteMoeHybridModel._update_mamba_mask",
    "falcon_h1": "FalconH1Model._update_mamba_mask",
    "qwen3_next": "Qwen3NextModel._update_linear_attn_mask",
    "qwen3_5": "Qwen3_5TextModel._update_linear_attn_mask",
    "qwen3_5_moe": "Qwen3_5MoeTextModel._update_linear_attn_mask",
    "nemotron_h": "NemotronHModel._update_mamba_mask",
    "olmo_hybrid": "OlmoHybridModel._update_linear_attn_mask",
}
"""The method that makes the mask to 5.12, by model; the oldest models first."""

_ALL = tuple(_METHODS)
_CALLERS = (*_ALL, "lfm2", "lfm2_moe")
"""The models whose modules have the function that makes the mask from 5.13 on."""

_FUNCTION = "create_recurrent_attention_mask"
_ASKS = "always", r"torch\.all\(attention_mask == 1\)"
_IS_FILLED = "always_created", r"has_previous_state"


def _spec(
    name: str, releases: str, places: dict[str, str], replacement: str, defect: str, *proofs: str
) -> PatchingSpec:
    return PatchingSpec(
        id=name,
        targets=tuple(f"transformers.models.{model}.modeling_{model}:{place}" for model, place in places.items()),
        replacement=f"{__name__}:{replacement}",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason=_REASON,
        upstream=_UPSTREAM,
        proofs=proofs,
        defect=(defect,),
        kind="wrap",
    )


def _by_method(releases: str, count: int, *proofs: str) -> PatchingSpec:
    """Return the spec for the first `count` models, which are those that exist in these releases."""
    places = {name: _METHODS[name] for name in _ALL[:count]}
    return _spec("state-padding-mask", releases, places, *_ASKS, *proofs)


SPECS = (
    _spec("recurrent-padding-mask", ">=4.45,<5.13", {"jamba": "JambaModel._update_mamba_mask"}, *_ASKS, "jamba"),
    _spec("recurrent-padding-mask", ">=5.13,<5.15", {"jamba": _FUNCTION}, *_IS_FILLED, "jamba"),
    _by_method(">=4.48,<4.52", 1, "bamba"),
    _by_method(">=4.52,<4.53", 2, "bamba"),
    _by_method(">=4.53,<4.57", 3, "falcon_h1"),
    _by_method(">=4.57,<5.2", 4, "falcon_h1"),
    _by_method(">=5.2,<5.3", 6, "falcon_h1", "qwen3_5_text"),
    _by_method(">=5.3,<5.13", 8, "falcon_h1", "qwen3_5_text"),
    _spec(
        "state-padding-mask",
        ">=5.13,<5.15",
        dict.fromkeys(_CALLERS, _FUNCTION),
        *_IS_FILLED,
        "falcon_h1",
        "qwen3_5_text",
    ),
)
