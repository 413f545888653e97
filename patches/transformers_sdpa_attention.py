"""Attention asks for the query length in Python, and the graph keeps the sample's answer.

Symptom: exported with a sample of one new token, there is no graph (`is_causal must be bool, not SymBool`), or there
is one that is wrong, or stops in ONNX Runtime, for every longer query (from 5.23).
Cause: `sdpa_attention_forward` evaluates `q_length > 1`, and from 5.23 `q_length == 1`, whatever the mask. torch
answers with the sample's value and then takes the axis for the constant 1.
What is done: while a call with a mask is traced, it goes straight to `scaled_dot_product_attention`. With a mask the
answer changes nothing: `is_causal` is False then. Calls without a mask, with a position bias, a paged cache or a soft
cap go to the original.
Can go: when the questions are asked of constants only.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_NOT_HANDLED = ("position_bias", "cache", "softcap", "output_attentions", "head_mask")


def without_questions(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `original` made not to look at the query length of a traced call that has a mask."""
    import torch

    from ._tracing import is_traced

    def sdpa_attention_forward(
        module: Any,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any,
        dropout: float = 0.0,
        scaling: float | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        others = args or any(kwargs.get(name) for name in _NOT_HANDLED)
        if attention_mask is None or others or not is_traced(query):
            return original(module, query, key, value, attention_mask, dropout, scaling, *args, **kwargs)
        groups = getattr(module, "num_key_value_groups", 1)
        output = torch.nn.functional.scaled_dot_product_attention(
            query,
            _repeated(key, groups),
            _repeated(value, groups),
            attn_mask=_cut(attention_mask, key),
            dropout_p=dropout,
            scale=scaling,
        )
        return output.transpose(1, 2).contiguous(), None

    return sdpa_attention_forward


def _repeated(states: Any, groups: int) -> Any:
    """Return keys or values, `(batch, kv_heads, length, size)`, with each head repeated `groups` times."""
    if groups == 1:
        return states
    batch, heads, length, size = states.shape
    return states[:, :, None].expand(batch, heads, groups, length, size).reshape(batch, heads * groups, length, size)


def _cut(mask: Any, key: Any) -> Any:
    """Return the mask with as many columns as there are keys; releases to 4.57 hand over longer ones."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    if mask.ndim != 4 or statically_known_true(mask.shape[-1] == key.shape[-2]):
        return mask
    return mask[:, :, :, : key.shape[-2]]


SPECS = (
    PatchingSpec(
        id="sdpa-attention-branch",
        targets=(
            "transformers.modeling_utils:ALL_ATTENTION_FUNCTIONS[sdpa]",
            "transformers.integrations.sdpa_attention:sdpa_attention_forward",
        ),
        replacement=f"{__name__}:without_questions",
        requires=("transformers>=4.54", "torch>=2.6"),
        reason="A sample of one new token gives no graph, or makes the query length a constant of it: wrong.",
        upstream=(
            "https://github.com/huggingface/transformers/pull/46196",
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/integrations/sdpa_attention.py",
        ),
        proofs=("llama:1,5,1",),
        kind="wrap",
    ),
)
