"""The mask is left out by an `if` on its values.

Symptom: `GuardOnDataDependentSymNode` in `_ignore_causal_mask_sdpa`, or a graph without a mask: wrong with padding.
Cause: where nothing is masked (`torch.all(attention_mask == 1)`), attention is called without a mask. transformers
4.44 takes `torch.export` in non-strict mode for an eager call.
What is done: while it is traced, the mask is never left out.
Can go: with transformers 4.44; from 4.45.0 on it knows that it is traced (run on 4.44.0, 4.44.2, 4.45.0 and later).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_ignore_causal_mask_sdpa(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_ignore_causal_mask_sdpa` say no while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    def _ignore_causal_mask_sdpa(attention_mask: Any, inputs_embeds: Any, *args: Any, **kwargs: Any) -> bool:
        if is_traced(inputs_embeds):
            return False
        return bool(original(attention_mask, inputs_embeds, *args, **kwargs))

    return _ignore_causal_mask_sdpa


SPECS = (
    PatchingSpec(
        id="mask-shortcut",
        targets=("transformers.modeling_attn_mask_utils:AttentionMaskConverter._ignore_causal_mask_sdpa",),
        replacement=f"{__name__}:patch_ignore_causal_mask_sdpa",
        requires=("transformers>=4.44,<4.45", "torch>=2.6"),
        reason="Attention does without a mask if the sample has no padding, by an if on data: no graph, or wrong.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.44.2/src/transformers/modeling_attn_mask_utils.py",
        ),
        proofs=("mistral_window",),
        defect=(r"torch\._dynamo\.is_compiling\(\)",),
        kind="wrap",
    ),
)
