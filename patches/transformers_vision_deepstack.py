"""Features of lower layers of the vision tower are added to as many tokens as a mask has.

Symptom: Qwen3-VL, Qwen3-VL-MoE as a whole: ONNX Runtime refuses to add tensors of different lengths.
Cause: `hidden_states[mask, :] + visual_embeds`: how many rows a mask picks is data, and the features of the image that
`vision-image-count` adds are among the others.
What is done: while it is traced, the features are scattered over zeros, and all rows are added.
Can go: with transformers 5.17; from 5.18 on these features are split like the others, and as many as the mask picks.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def scattered(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `_deepstack_process`, made to add to all rows while it is traced."""
    import torch

    from ._tracing import is_traced

    def _deepstack_process(self: Any, hidden_states: Any, visual_pos_masks: Any, visual_embeds: Any) -> Any:
        if not is_traced(hidden_states):
            return original(self, hidden_states, visual_pos_masks, visual_embeds)
        mask = visual_pos_masks[..., None].expand_as(hidden_states)
        return hidden_states + torch.zeros_like(hidden_states).masked_scatter(mask, visual_embeds.to(hidden_states))

    return _deepstack_process


SPECS = (
    PatchingSpec(
        id="vision-deepstack",
        targets=(
            "transformers.models.qwen3_vl.modeling_qwen3_vl:Qwen3VLTextModel._deepstack_process",
            "transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe:Qwen3VLMoeTextModel._deepstack_process",
        ),
        replacement=f"{__name__}:scattered",
        requires=("transformers>=4.57,<5.18", "torch>=2.6"),
        reason="Features are added to the rows that a mask picks, and a graph has more of them: wrong.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.17.0/src/transformers/models/qwen3_vl/modeling_qwen3_vl.py",
        ),
        proofs=("qwen3_vl",),
        kind="wrap",
    ),
)
