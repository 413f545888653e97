"""`scaled_dot_product_attention` in a graph does not take, or does not give, what it does in eager mode.

Symptom: with a sample of one new token, `TypeError: argument 'is_causal' must be bool, not SymBool`. With left
padding, the rows of padded tokens differ from eager: 0 there, the mean of all values in ONNX.
Cause: attention code computes `is_causal = query_length > 1 and mask is None and ...`. When the length is a dynamic
axis whose sample value is 1, Python's `and` returns its first operand: a `SymBool`. And onnxscript lowers a boolean
mask with the smallest float in place of minus infinity, so a row without any key is a uniform one; `enable_gqa` it
does not lower for dynamic axes ("'>' not supported between instances of 'SymbolicDim' and 'int'").
Can go: when torch takes a `SymBool` (or transformers makes a bool of it), and onnxscript lowers both of the others.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def as_in_eager(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `original` made to accept a `SymBool` beside a mask, and to give 0 for rows without any key."""
    import torch

    from ._tracing import is_traced

    def scaled_dot_product_attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: Any = False,
        **kwargs: Any,
    ) -> Any:
        if isinstance(is_causal, torch.SymBool):
            is_causal = _flag(attn_mask)
        if not is_traced(query):
            return original(query, key, value, attn_mask, dropout_p, is_causal, **kwargs)
        if kwargs.pop("enable_gqa", False):
            key, value = _repeated(key, query), _repeated(value, query)
        output = original(query, key, value, attn_mask, dropout_p, is_causal, **kwargs)
        if attn_mask is None or attn_mask.dtype != torch.bool:
            return output
        return torch.where(attn_mask.any(dim=-1, keepdim=True), output, 0.0)

    return scaled_dot_product_attention


def _repeated(states: Any, query: Any) -> Any:
    """Return keys or values, `(..., kv_heads, length, size)`, repeated to the heads of the query."""
    groups = query.shape[-3] // states.shape[-3]
    shape = (*states.shape[:-2], groups, *states.shape[-2:])
    return states.unsqueeze(-3).expand(shape).flatten(-4, -3)


def _flag(mask: Any) -> bool:
    """Return what a symbolic `is_causal` has to be: torch takes a mask or the flag, never both."""
    if mask is None:
        raise ValueError(
            "spec 'torch-sdpa': is_causal depends on a dynamic axis whose sample value is 1, and there is no "
            "attention mask, so it is not known whether longer queries are causal. Export with a sample of two or "
            "more new tokens"
        )
    return False


SPECS = (
    PatchingSpec(
        id="torch-sdpa",
        targets=("torch.nn.functional:scaled_dot_product_attention",),
        replacement=f"{__name__}:as_in_eager",
        requires=("torch>=2.6",),
        reason="A sample of one new token gives no graph, enable_gqa neither; rows of padded tokens differ in ONNX.",
        upstream=(
            "https://github.com/huggingface/transformers/pull/46196",
            "https://github.com/pytorch/pytorch/issues/103749",
        ),
        proofs=("llama:1,5,1", "llama"),
        kind="wrap",
    ),
)
