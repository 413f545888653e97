"""How far a mask is padded depends on data.

Symptom: `Could not guard on data-dependent expression` in `prepare_padding_mask`, with a cache of fixed size whose
layers slide (`SlidingWindowCache`, `HybridCache`).
Cause: such a cache says where its first key stands with a tensor, and the mask is padded if that is beyond its end.
What is done: while it is traced, the mask is padded by the length of the cache in any case. The first key stands
within the mask, so that is enough; what lies beyond is never read.
Can go: with transformers 4.55; such layers count with Python numbers from 4.56 on (run on 4.53.3, 4.54.1, 4.55.4).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_prepare_padding_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `prepare_padding_mask` pad without a question where the offset is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    def prepare_padding_mask(attention_mask: Any, kv_length: int, kv_offset: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        if attention_mask is None or not isinstance(kv_offset, torch.Tensor) or not is_traced(kv_offset):
            return original(attention_mask, kv_length, kv_offset, *args, **kwargs)
        padded = torch.nn.functional.pad(attention_mask, (0, kv_length))
        is_cut = args[0] if args else kwargs.get("_slice", True)
        return padded[:, torch.arange(kv_length, device=padded.device) + kv_offset] if is_cut else padded

    return prepare_padding_mask


SPECS = (
    PatchingSpec(
        id="mask-offset",
        targets=("transformers.masking_utils:prepare_padding_mask",),
        replacement=f"{__name__}:patch_prepare_padding_mask",
        requires=("transformers>=4.53,<4.56", "torch>=2.6"),
        reason="The mask of a sliding cache of fixed size is padded by an if on data: no graph.",
        upstream=("https://github.com/huggingface/transformers/blob/v4.55.4/src/transformers/masking_utils.py",),
        proofs=("mistral_ring", "gemma2_hybrid"),
        defect=(r"mask_indices \+= kv_offset",),
        kind="wrap",
    ),
)
