"""`scaled_dot_product_attention` refuses a symbolic `is_causal`.

Symptom: with a sample of one new token, `TypeError: argument 'is_causal' must be bool, not SymBool`.
Cause: attention code computes `is_causal = query_length > 1 and mask is None and ...`. When the length is a dynamic
axis whose sample value is 1, Python's `and` returns its first operand: a `SymBool`.
Upstream: transformers says that it should be handled by exporters.
Can go: when transformers orders the conditions so that the result is a bool, or torch takes a SymBool.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def with_plain_flag(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `original` made to accept a `SymBool` as `is_causal` where a mask says what may be attended to."""
    import torch

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
            if attn_mask is None:
                raise ValueError(
                    "spec 'torch-sdpa-is-causal': is_causal depends on a dynamic axis whose sample value is 1 and "
                    "there is no attention mask, so it is not known whether longer queries are causal. Export with "
                    "a sample of two or more new tokens"
                )
            # torch takes a mask or the flag, never both: with a mask the flag is False for every length.
            is_causal = False
        return original(query, key, value, attn_mask, dropout_p, is_causal, **kwargs)

    return scaled_dot_product_attention


SPECS = (
    PatchingSpec(
        id="torch-sdpa-is-causal",
        targets=("torch.nn.functional:scaled_dot_product_attention",),
        replacement=f"{__name__}:with_plain_flag",
        requires=("torch>=2.6",),
        reason="A sample of one new token makes is_causal a SymBool, which attention refuses: no graph.",
        upstream=("https://github.com/huggingface/transformers/pull/46196",),
        proofs=("llama[1,5,1]",),
        kind="wrap",
    ),
)
