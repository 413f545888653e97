"""The length of the causal mask of Jamba and Zamba2 is the value of a tensor.

Symptom: `GuardOnDataDependentSymNode`, `Eq(Min(8, u0), 8)`.
Cause: `target_length = cache_position[-1] + 1` in `_update_causal_mask`.
What is done: while it is traced, the mask is as long as the attention mask, and made from the same positions.
Can go: with transformers 4.57 or torch 2.14; Jamba makes its masks elsewhere from 5.0 on, Zamba2 does without (run on
5.1.0), and torch 2.15 resolves the length (run on 2.14.1 and 2.15.0).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_update_causal_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Take the length of the causal mask from the attention mask while it is traced."""
    import torch

    from exportcompat.patches.toolkit.tracing import is_traced

    def _update_causal_mask(self: Any, attention_mask: Any, input_tensor: Any, cache_position: Any) -> Any:
        if attention_mask is None or attention_mask.dim() != 2 or not is_traced(input_tensor):
            return original(self, attention_mask, input_tensor, cache_position)
        keys = torch.arange(attention_mask.shape[1], device=input_tensor.device)
        is_later = keys > cache_position[:, None]
        is_masked = is_later[None, None] | (attention_mask[:, None, None] == 0)
        smallest = torch.finfo(input_tensor.dtype).min
        return is_masked.to(input_tensor.dtype).masked_fill(is_masked, smallest)

    return _update_causal_mask


def _spec(model: str, place: str, releases: str) -> PatchingSpec:
    return PatchingSpec(
        id=f"{model}-position-mask",
        targets=(f"transformers.models.{model}.modeling_{model}:{place}._update_causal_mask",),
        replacement=f"{__name__}:patch_update_causal_mask",
        requires=(f"transformers{releases}", "torch>=2.6,<2.15"),
        reason="The length of the causal mask of Jamba and Zamba2 is the value of a tensor: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/jamba/modeling_jamba.py",
        ),
        proofs=(model,),
        defect=(r"cache_position\[-1\]",),
        kind="wrap",
    )


SPECS = (_spec("jamba", "JambaModel", ">=4.44,<5.0"), _spec("zamba2", "Zamba2Model", ">=4.49,<5.0"))
