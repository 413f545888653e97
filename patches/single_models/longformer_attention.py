"""Longformer and LED attend within chunks whose number, and to global tokens whose number, are the sample's.

Symptom: `Could not guard on data-dependent expression`, from `as_strided` and `narrow`, for every model of both.
Cause: `torch.div(seq_len, window_overlap)` makes a tensor of a length, and `as_strided` takes it for a size; the number
of tokens with global attention is `.max()` of data, and as many rows of `attn_output` are written.
What is done: while it is traced, a text is cut into blocks of half a window, as many as it needs, and each attends to
itself and to both beside it, with what is outside of the window masked. Tokens with global attention are picked by
places that are computed; there may be none. Work and memory grow with the length times the window, as upstream. The
projections for global attention are computed for texts without any, too, which upstream leaves out.
Can go: when upstream has chunks and global tokens whose numbers stay symbols.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_attention_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward` of an attention for any number of tokens and of tokens with global attention."""
    from exportcompat.patches.toolkit.wrapping import when_traced

    from ._longformer import Attention

    signature = inspect.signature(original)

    def traced(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        given = signature.bind(*args, **kwargs).arguments
        attention = Attention(
            given["self"],
            given["hidden_states"],
            given["is_index_masked"],
            given["is_index_global_attn"],
            # Up to 4.57.
            given.get("layer_head_mask"),
        )
        return attention.results() if given.get("output_attentions") else (attention.states(),)

    return when_traced(original, traced)


SPECS = (
    PatchingSpec(
        id="longformer-attention",
        targets=(
            "transformers.models.longformer.modeling_longformer:LongformerSelfAttention.forward",
            "transformers.models.led.modeling_led:LEDEncoderSelfAttention.forward",
        ),
        replacement=f"{__name__}:patch_attention_forward",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="Longformer and LED make chunks by strides, and numbers of global tokens from data: no graph.",
        upstream=(source("models/longformer/modeling_longformer.py", "v5.24.0"),),
        proofs=("longformer", "led_encoder"),
        defect=(r"_sliding_chunks_query_key_matmul", r"_get_global_attn_indices"),
        kind="wrap",
    ),
)
