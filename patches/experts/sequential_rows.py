"""Experts take their rows one after the other, from where the last one ended, which is data.

Symptom: Aria: `GuardOnDataDependentSymNode` (`Could not extract specialized integer from data-dependent expression`).
Cause: `token_states[start:end]`, with ends that are the sums of what was counted.
What is done: while it is traced, each expert multiplies all rows, with those of others set to 0 (see
`experts-grouped-matmul`).
Can go: with transformers 5.17; from 5.18 on these experts are those of `experts-grouped-matmul`.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def over_all_experts(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `sequential_experts_gemm`, made to let every expert multiply all rows while it is traced."""
    import torch

    from exportcompat.patches.toolkit.tracing import is_traced

    from .grouped_matmul import _products

    def sequential_experts_gemm(token_states: Any, expert_weights: Any, tokens_per_expert: Any) -> Any:
        if not is_traced(token_states):
            return original(token_states, expert_weights, tokens_per_expert)
        return _products(token_states, expert_weights, torch.cumsum(tokens_per_expert, 0))

    return sequential_experts_gemm


SPECS = (
    PatchingSpec(
        id="experts-sequential-rows",
        targets=("transformers.models.aria.modeling_aria:sequential_experts_gemm",),
        replacement=f"{__name__}:over_all_experts",
        requires=("transformers>=4.48,<5.18", "torch>=2.6"),
        reason="Each expert takes as many rows as were counted for it, which is data: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.17.0/src/transformers/models/aria/modeling_aria.py",
        ),
        proofs=("aria_text",),
        defect=(r"token_states\[start:end\]",),
        kind="wrap",
    ),
)
