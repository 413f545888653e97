"""A length of a text that is recorded is taken for the positions of its tokens.

Symptom: `IndexError: tuple index out of range` in `sdpa_mask`, from the TorchScript exporter (`dynamo=False`): every
decoder of transformers 5.4 to 5.8.
Cause: these releases still take the positions of the tokens in the place of their number, and know them by their being
a tensor. So is every size, while `torch.jit.trace` records.
What is done: while it records, the positions are handed over, of which upstream takes the number and the first one.
Can go: with transformers 5.8; 5.9 takes the number alone.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_sdpa_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `sdpa_mask` get positions where the number of tokens is recorded as a tensor."""
    import torch

    def sdpa_mask(batch_size: Any, q_length: Any, kv_length: Any, q_offset: Any = 0, *args: Any, **kwargs: Any) -> Any:
        if torch.jit.is_tracing() and isinstance(q_length, torch.Tensor) and not q_length.dim():
            q_length = torch.arange(q_length, device=q_length.device) + q_offset
        return original(batch_size, q_length, kv_length, q_offset, *args, **kwargs)

    return sdpa_mask


SPECS = (
    PatchingSpec(
        id="mask-query-length",
        targets=(
            "transformers.masking_utils:sdpa_mask",
            "transformers.masking_utils:AttentionMaskInterface._global_mapping[sdpa]",
        ),
        replacement=f"{__name__}:patch_sdpa_mask",
        requires=("transformers>=5.4,<5.9", "torch>=2.6"),
        reason="A length that is recorded is taken for positions: no TorchScript graph.",
        upstream=(source("masking_utils.py", "v5.6.0"), source("masking_utils.py", "v5.9.0")),
        proofs=("llama_script",),
        defect=(r"q_length\.shape\[0\], q_length\[0\]",),
        kind="wrap",
    ),
)
