"""Longformer asks in Python whether a token has global attention, if attention is a result.

Symptom: `Could not guard on data-dependent expression Eq(u0, 1)`, from `if is_global_attn`, with `output_attentions`.
Cause: `is_index_global_attn.flatten().any().item()` in the encoder.
What is done: while it is traced, the answer is yes, as `longformer-attention` is right for no token, too. So a file has
`global_attentions` for every call; where upstream returns none, they have no columns.
Can go: with `longformer-attention`.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_encoder_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of an encoder take for granted while it is traced that there may be global attention."""
    import torch

    from exportcompat.patches.toolkit.function_modes import Override
    from exportcompat.patches.toolkit.wrapping import when_traced

    def item(function: Callable[..., Any], tensor: Any) -> Any:
        # Attention asks for a number of tokens.
        return True if tensor.dtype == torch.bool else function(tensor)

    def traced(*args: Any, **kwargs: Any) -> Any:
        with Override({torch.Tensor.item: item}):
            return original(*args, **kwargs)

    return when_traced(original, traced)


SPECS = (
    PatchingSpec(
        id="longformer-global-question",
        targets=("transformers.models.longformer.modeling_longformer:LongformerEncoder.forward",),
        replacement=f"{__name__}:patch_encoder_forward",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="With output_attentions Longformer asks in Python whether attention is global: no graph.",
        upstream=(source("models/longformer/modeling_longformer.py", "v5.24.0"),),
        proofs=("longformer_attentions",),
        defect=(r"is_index_global_attn\.flatten\(\)\.any\(\)\.item\(\)",),
        kind="wrap",
    ),
)
