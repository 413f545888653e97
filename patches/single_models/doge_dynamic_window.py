"""Doge masks all but the strongest keys beyond a length, and the graph does so always or never.

Symptom: off by 1.9 to 2.9 beyond `keep_window_size` tokens (2,048 by default), where no check of a few shapes reaches.
Cause: `if attn_mask.shape[-1] > keep_window_size`: the answer of the sample stays in the graph.
What is done: while it is traced, as many keys are kept as the window has, or as there are if those are fewer; then all
of them are kept, which is what the other branch does. Which of two equally strong keys is kept (those of one token that
comes twice are, in the first layer) is for each runtime to say, in eager mode too.
Can go: when torch exports an `if` on sizes as one graph.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


class _Endless:
    """A length that none is more than."""

    def __lt__(self, other: Any) -> bool:
        return False


def patch_prepare_dynamic_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `prepare_dynamic_mask` of Doge, made to keep the smaller one of window and length."""

    def prepare_dynamic_mask(
        self: Any, hidden_states: Any, dt_states: Any, keep_window_size: int = 2048, attention_mask: Any = None
    ) -> Any:
        import torch

        from exportcompat.patches.toolkit.tracing import is_traced

        if not is_traced(dt_states):
            return original(self, hidden_states, dt_states, keep_window_size, attention_mask)
        # `(batch, kv_heads, sequence, total)`, with nothing masked but what is padded or comes later.
        mask = original(self, hidden_states, dt_states, _Endless(), attention_mask)
        kept = torch.topk(mask, torch.sym_min(keep_window_size, mask.shape[-1]), dim=-1, sorted=False).indices
        is_kept = torch.zeros_like(mask).scatter(-1, kept, 1.0)
        return mask.masked_fill(is_kept == 0.0, torch.finfo(hidden_states.dtype).min)

    return prepare_dynamic_mask


SPECS = (
    PatchingSpec(
        id="dynamic-window",
        targets=("transformers.models.doge.modeling_doge:DogeAttention.prepare_dynamic_mask",),
        replacement=f"{__name__}:patch_prepare_dynamic_mask",
        requires=("transformers>=4.54", "torch>=2.6"),
        reason="Beyond keep_window_size tokens the graph masks nothing more, or the reverse: wrong numbers.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/models/doge/modeling_doge.py",
        ),
        proofs=("doge",),
        defect=(r"attn_mask\.shape\[-1\] > keep_window_size",),
        kind="wrap",
    ),
)
