"""Attention of a query without any key is 0 in eager mode, and something else in ONNX.

Symptom: with left padding, the logits of padded tokens differ from eager by whole units.
Cause: onnxscript lowers a boolean mask with the smallest float in place of minus infinity. A row in which everything
is masked is then a uniform one, and gives the mean of all values, where eager attention gives 0.
What is done: while it is traced, rows without any key are set to 0 after the attention.
Can go: when onnxscript zeroes them itself.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def zero_without_keys(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `scaled_dot_product_attention` made to give 0 for rows without any key while it is traced.

    A mask that is learned loses its gradient: with one torch records another kernel, whose output has another layout
    than what the graph is decomposed to (`Cannot view a tensor`, as for Doge).
    """
    import torch

    from ._tracing import is_traced

    def scaled_dot_product_attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        if attn_mask is None or not is_traced(query):
            return original(query, key, value, attn_mask, *args, **kwargs)
        mask = attn_mask.detach() if attn_mask.requires_grad else attn_mask
        output = original(query, key, value, mask, *args, **kwargs)
        return output if mask.dtype != torch.bool else torch.where(mask.any(dim=-1, keepdim=True), output, 0.0)

    return scaled_dot_product_attention


SPECS = (
    PatchingSpec(
        id="torch-sdpa-masked-rows",
        targets=("torch.nn.functional:scaled_dot_product_attention",),
        replacement=f"{__name__}:zero_without_keys",
        requires=("torch>=2.6",),
        reason="Rows of padded tokens, which may attend to nothing, are 0 in eager attention and not in ONNX.",
        upstream=("https://github.com/pytorch/pytorch/issues/103749",),
        proofs=("llama",),
        kind="wrap",
    ),
)
