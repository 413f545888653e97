"""Whether layers without attention see a mask is decided by ifs on the cache and on what the mask holds.

Symptom: Jamba: no graph (`GuardOnDataDependentSymNode`), or one that lets padding into the states: a sample with a past
has no mask, so the graph has none for a prompt either.
Cause: `if cache_position[0] > 0 or torch.all(attention_mask == 1): None`; to 5.14 an if on the cache.
What is done: while it is traced, these layers get the mask; they take the columns of the new tokens.
Can go: when upstream hands the mask on in every trace.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def always(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method `_update_mamba_mask`, made to hand the mask on while it is traced."""
    from ._tracing import is_traced

    def _update_mamba_mask(self: Any, attention_mask: Any, *args: Any, **kwargs: Any) -> Any:
        return attention_mask if is_traced(attention_mask) else original(self, attention_mask, *args, **kwargs)

    return _update_mamba_mask


def always_created(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `create_recurrent_attention_mask`, made to hand the mask on while it is traced."""
    from ._tracing import is_traced

    def create_recurrent_attention_mask(
        config: Any, inputs_embeds: Any, attention_mask: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if is_traced(inputs_embeds) and attention_mask is not None and attention_mask.ndim == 2:
            return attention_mask
        return original(config, inputs_embeds, attention_mask, *args, **kwargs)

    return create_recurrent_attention_mask


_JAMBA = "transformers.models.jamba.modeling_jamba"
_UPSTREAM = (
    "https://github.com/huggingface/transformers/blob/v5.5.4/src/transformers/models/jamba/modeling_jamba.py",
    "https://github.com/huggingface/transformers/blob/v5.14.1/src/transformers/masking_utils.py",
)
_REASON = "Whether Mamba layers see the padding is an if on the cache and on the mask: no graph, or a wrong one."

SPECS = (
    PatchingSpec(
        id="recurrent-mask",
        targets=(f"{_JAMBA}:JambaModel._update_mamba_mask",),
        replacement=f"{__name__}:always",
        requires=("transformers>=4.45,<5.13", "torch>=2.6"),
        reason=_REASON,
        upstream=_UPSTREAM,
        proofs=("jamba",),
        defect=(r"torch\.all\(attention_mask == 1\)",),
        kind="wrap",
    ),
    PatchingSpec(
        id="recurrent-mask",
        targets=(f"{_JAMBA}:create_recurrent_attention_mask",),
        replacement=f"{__name__}:always_created",
        requires=("transformers>=5.13,<5.15", "torch>=2.6"),
        reason=_REASON,
        upstream=_UPSTREAM,
        proofs=("jamba",),
        defect=(r"has_previous_state",),
        kind="wrap",
    ),
)
