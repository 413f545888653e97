"""Attention of a query without any key is 0 in eager mode, and something else in ONNX.

Symptom: with left padding, the logits of padded tokens differ from eager by whole units.
Cause: onnxscript lowers a boolean mask with the smallest float in place of minus infinity. A row in which everything
is masked is then a uniform one, and gives the mean of all values, where eager attention gives 0.
To torch 2.12 attention with a mask also asks whether its batch is 1, which is a branch on data where images have been
selected (`Could not guard on data-dependent expression Eq(u0, 1)`: Idefics3, SmolVLM).
A mask of numbers is added in eager mode. Minus infinity in a whole row, as `nn.TransformerEncoder` has it for padding
in front of a causal text, gives 0 there and NaN in ONNX, which the next layer spreads over the text. The smallest float
everywhere gives the mean, and ONNX Runtime's `Attention` (opset 23) takes that very number for "no key" and gives 0.
It also refuses a mask that all queries share, `(..., 1, keys)`, as Qwen2.5-VL's windows have it (`inconsistent
q_sequence_length (between attn_mask and Q)`), and a call without rows, as the images of a text without any are (`Batch
size must be greater than 0`: Gemma3, LLaVA), and gives one row for a query that all rows of the keys share (Granite
Speech).
What is done: while it is traced, rows without any key are set to 0 after the attention. In a mask of numbers the
smallest float stands for minus infinity, and half of it for itself. A shared mask is expanded to a row for each query.
To 2.12 attention is computed step by step where the size of the batch is data, and from 2.13 on, for ONNX, where a call
may have no rows, or a query is shared by rows.
Can go: when onnxscript zeroes them itself.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import variants

_RANK = 4
"""Of a query: `(batch, heads, sequence, channels)`."""


def patch_scaled_dot_product_attention(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `scaled_dot_product_attention` give 0 for rows without any key while it is traced.

    A mask that is learned loses its gradient: with one torch records another kernel, whose output has another layout
    than what the graph is decomposed to (`Cannot view a tensor`, as for Doge).
    """
    import torch

    from exportcompat.patches.toolkit.tracing import is_traced

    def scaled_dot_product_attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        if attn_mask is None or not is_traced(query):
            return original(query, key, value, attn_mask, *args, **kwargs)
        mask = attn_mask.detach() if attn_mask.requires_grad else attn_mask
        is_key, given = (mask, mask) if mask.dtype == torch.bool else (mask != -torch.inf, _added(mask))
        output = original(query, key, value, _expanded(given, query), *args, **kwargs)
        # ONNX Runtime reduces nothing along a negative axis where there are no sequences.
        return torch.where(is_key.any(dim=mask.dim() - 1, keepdim=True), output, 0.0)

    return scaled_dot_product_attention


def _added(mask: Any) -> Any:
    """Return a mask of numbers that weighs the same; what ONNX Runtime takes for no key is for none."""
    import torch

    least = torch.finfo(mask.dtype).min
    return torch.where(mask == least, least / 2, mask.clamp(min=least))


def _expanded(mask: Any, query: Any) -> Any:
    """Return a mask with a row for each query; one whose number of rows is not known to be 1 has them."""
    is_shared = mask.dim() > 1 and isinstance(mask.shape[-2], int) and mask.shape[-2] == 1
    return mask.expand(*mask.shape[:-2], query.shape[-2], -1) if is_shared else mask


def patch_attention_of_any_batch(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same for a torch that asks with a mask whether there is one sequence, which may be data."""

    def scaled_dot_product_attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        if attn_mask is None or args or kwargs.get("enable_gqa") or not _is_counted(query):
            return original(query, key, value, attn_mask, *args, **kwargs)
        return _attention(query, key, value, attn_mask, kwargs.get("scale"))

    return patch_scaled_dot_product_attention(scaled_dot_product_attention)


def patch_attention_of_no_rows(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same, and compute attention step by step where a call may have no rows, or rows share a query."""
    import torch

    from exportcompat.patches.toolkit.media_rows import may_be_empty
    from exportcompat.patches.toolkit.tracing import is_traced

    def scaled_dot_product_attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        is_plain = not args and not kwargs.get("enable_gqa") and not kwargs.get("is_causal") and query.dim() == _RANK
        is_exported = is_plain and torch.onnx.is_in_onnx_export() and is_traced(query)
        if is_exported and (may_be_empty(query.shape[0]) or _is_shared(query, key)):
            return _attention(query, key, value, attn_mask, kwargs.get("scale"))
        return original(query, key, value, attn_mask, *args, **kwargs)

    return patch_scaled_dot_product_attention(scaled_dot_product_attention)


def _attention(query: Any, key: Any, value: Any, mask: Any, scale: float | None) -> Any:
    """Return attention, `(batch, heads, queries, channels)`, of products and sums.

    Dropout is for training, and a mask is causal itself.
    """
    import torch

    scores = query @ key.transpose(2, 3) * (query.shape[3] ** -0.5 if scale is None else scale)
    if mask is not None:
        least = torch.finfo(scores.dtype).min
        scores = torch.where(mask, scores, least) if mask.dtype == torch.bool else scores + mask
    # torch 2.6 asks before a softmax whether there are any scores.
    shares = (scores - scores.amax(3, keepdim=True)).exp()
    return shares / shares.sum(3, keepdim=True) @ value


def _is_shared(query: Any, key: Any) -> bool:
    """Say whether all rows of the keys share one row of queries."""
    is_one = [isinstance(item.shape[0], int) and item.shape[0] == 1 for item in (query, key)]
    return is_one == [True, False]


def _is_counted(query: Any) -> bool:
    """Say whether the batch of a query, `(batch, heads, sequence, channels)`, is data, as after a selection."""
    import torch
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    # Dynamo cannot trace the question, and asks torch's own about the batch where it is data.
    if torch.compiler.is_dynamo_compiling():
        return False
    return bool(query.dim() == _RANK and free_unbacked_symbols(query.shape[0]))


SPECS = variants(
    {
        "id": "torch-sdpa-masked-rows",
        "targets": ("torch.nn.functional:scaled_dot_product_attention",),
        "reason": "Rows of padded tokens, which may attend to nothing, are 0 in eager attention and not in ONNX.",
        "upstream": ("https://github.com/pytorch/pytorch/issues/103749",),
        "kind": "wrap",
    },
    {
        "torch>=2.6,<2.13": {
            "replacement": f"{__name__}:patch_attention_of_any_batch",
            "proofs": ("llama", "idefics3", "stacking_gpt"),
        },
        "torch>=2.13": {
            "replacement": f"{__name__}:patch_attention_of_no_rows",
            "proofs": ("llama", "llava_export", "stacking_gpt"),
        },
    },
)
