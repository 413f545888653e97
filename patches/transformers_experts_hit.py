"""Experts are run one by one, for those that some token was sent to: a loop whose length is data.

Symptom: `GuardOnDataDependentSymNode` (`Eq(u0, 0)`, `u0 > 0`): Mixtral, Qwen-MoE, gpt-oss from 4.52, MiniMax, ERNIE
and others; DeepSeek-V3, GLM-4-MoE and Dots from 4.51; Jamba, PhiMoE and DBRX before.
Cause: the loop runs over `expert_mask.sum(...).nonzero()`, or over all experts and skips those without a token.
What is done: while it is traced, the loop runs over all experts, and none is skipped. One without a token multiplies
no rows, and adds nothing.
Can go: with transformers 4.x; from 5.0 on experts are one operator (see `experts-grouped-product`).
"""

from exportcompat.registry import PatchingSpec

_SOURCE = "https://github.com/huggingface/transformers/blob/{}/src/transformers/models/{}"


def _variant(releases: str, proofs: tuple[str, ...], source: str) -> PatchingSpec:
    return PatchingSpec(
        id="experts-hit-loop",
        targets=tuple(
            f"mentioning(transformers:{name})" for name in ("expert_hit", "expert_hitted", "token_indices", "token_list", "top_x")
        ),
        replacement="exportcompat.patches._expert_loop:over_all_experts",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="Experts are run in a loop over those that were hit, which depends on data: no graph.",
        upstream=(source,),
        proofs=proofs,
        kind="wrap",
    )


SPECS = (
    # Mixtral and Qwen-MoE run all of their experts here.
    _variant(">=4.44,<4.52", ("jamba",), _SOURCE.format("v4.44.2", "jamba/modeling_jamba.py")),
    _variant(">=4.52,<5.0", ("qwen2_moe", "deepseek_v3"), _SOURCE.format("v4.57.6", "mixtral/modeling_mixtral.py")),
)
