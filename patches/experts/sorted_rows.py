"""Rows are sorted by expert, and cut into as many as each expert got, which is data.

Symptom: DeepSeek-V2: `GuardOnDataDependentSymNode` (`Eq(u0, 0)`).
Cause: `sorted_tokens[start_idx:end_idx]`, with ends that are the sums of what was counted.
What is done: while it is traced, every expert multiplies every row, and rows that were not sent to it weigh nothing.
Can go: with transformers 4.x; from 5.0 on these experts are those of `experts-grouped-matmul`.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def unsorted(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `moe`, made to give every row to every expert while it is traced."""
    import torch

    from exportcompat.patches.toolkit.tracing import is_traced

    def moe(self: Any, hidden_states: Any, topk_ids: Any, topk_weight: Any) -> Any:
        if not is_traced(hidden_states):
            return original(self, hidden_states, topk_ids, topk_weight)
        none = topk_weight.new_zeros((hidden_states.shape[0], len(self.experts)))
        weights = none.scatter(1, topk_ids, topk_weight)[..., None]
        rows = torch.stack([expert(hidden_states) for expert in self.experts], 1)
        return (rows.to(weights.dtype) * weights).sum(1).to(rows.dtype)

    return moe


SPECS = (
    PatchingSpec(
        id="experts-sorted-rows",
        targets=("transformers.models.deepseek_v2.modeling_deepseek_v2:DeepseekV2MoE.moe",),
        replacement=f"{__name__}:unsorted",
        requires=("transformers>=4.54,<5.0", "torch>=2.6"),
        reason="Each expert gets as many rows as were counted for it, which is data: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/deepseek_v2/modeling_deepseek_v2.py",
        ),
        proofs=("deepseek_v2",),
        kind="replace",
    ),
)
