"""Experts are run one by one, for those that some token was sent to: a loop whose length is data.

Symptom: `GuardOnDataDependentSymNode` (`Eq(u0, 0)`, `u0 > 0`): Mixtral, Qwen-MoE, gpt-oss from 4.52, MiniMax, ERNIE
and others; DeepSeek-V3, GLM-4-MoE and Dots from 4.51; Jamba, PhiMoE and DBRX before; Switch Transformers to 4.57.
Cause: the loop runs over `expert_mask.sum(...).nonzero()`, or over all experts and skips those without a token.
What is done: while it is traced, the loop runs over all experts, and none is skipped. One without a token multiplies
no rows, and adds nothing.
From 5.0 on experts are one operator (see `experts-grouped-matmul`), unless the model is asked to be eager: then it
runs its loop, which is what `ExpertsInterface` falls back to from 5.1 on. The experts of four models are no operator
there either. LongCat has hundreds, most of which return what they are given: from 5.24 and torch 2.13 on those with
weights run in one `scan`, and the others are one product.
Can go: with transformers 4.x, where nobody asks for `experts_implementation="eager"`; the loop of the four, when they
get an operator.
"""

from exportcompat.registry import PatchingSpec

_MOE = "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/integrations/moe.py"
_SOURCE = "https://github.com/huggingface/transformers/blob/{}/src/transformers/models/{}"

_LONGCAT = _SOURCE.format("v5.23.0", "longcat_flash/modeling_longcat_flash.py")
_OWN, _SCANNED = "experts-own-loop", "experts-own-scan"


_COPIES = tuple(
    f"methods_using(transformers:{name})"
    for name in ("expert_hit", "expert_hitted", "token_indices", "token_list", "top_x")
)
_SWITCH = ("methods_using(transformers:idx_mask)",)
_LOOPS = tuple(
    f"transformers.models.{model}.modeling_{model}:{name}Experts.forward"
    for model, name in (
        ("dbrx", "Dbrx"),
        ("longcat_flash", "LongcatFlash"),
        ("nllb_moe", "NllbMoe"),
        ("switch_transformers", "SwitchTransformers"),
    )
)
_LONGCAT_LOOP = tuple(target for target in _LOOPS if "longcat_flash" in target)
_GATED = ("transformers.models.step3p7.modeling_step3p7:Step3p7Experts.forward",)
"""A loop of 5.24 that calls the number of an expert a hit."""
_OTHER_LOOPS = tuple(target for target in _LOOPS if target not in _LONGCAT_LOOP)
_FALLBACK = ("transformers.integrations.moe:ExpertsInterface.get_interface",)


def _variant(
    releases: str,
    proofs: tuple[str, ...],
    source: str,
    targets: tuple[str, ...] = _COPIES,
    replacement: str = "_dense_loop:patch_expert_loop",
    name: str = "experts-hit-loop",
    torch: str = ">=2.6",
) -> PatchingSpec:
    return PatchingSpec(
        id=name,
        targets=targets,
        replacement=f"{__package__}.{replacement}",
        requires=(f"transformers{releases}", f"torch{torch}"),
        higher_order=("scan",) if name == _SCANNED else (),
        reason="Experts are run in a loop over those that were hit, which depends on data: no graph.",
        upstream=(source,),
        proofs=proofs,
        kind="wrap",
    )


SPECS = (
    # Mixtral and Qwen-MoE run all of their experts here.
    _variant(">=4.44,<4.52", ("jamba",), _SOURCE.format("v4.44.2", "jamba/modeling_jamba.py")),
    _variant(
        ">=4.52,<5.0",
        ("qwen2_moe", "deepseek_v3", "switch_transformers_decoder"),
        _SOURCE.format("v4.57.6", "mixtral/modeling_mixtral.py"),
        (*_COPIES, *_SWITCH),
    ),
    # A model of 5.0 looks its implementation up by itself, around its loop.
    _variant(
        ">=5.0,<5.1",
        ("mixtral_loop", "mixtral_script", "dbrx"),
        _MOE.replace("v5.23.0", "v5.0.0"),
        replacement="_operator_lookup:patch_expert_class",
    ),
    _variant(">=5.1", ("mixtral_loop", "mixtral_script"), _MOE, _FALLBACK, "_dense_loop:patch_get_interface"),
    *(
        _variant(
            releases,
            (*proofs, "switch_transformers_decoder", "nllb_moe_decoder"),
            _LONGCAT,
            targets,
            name=_OWN,
            torch=torch,
        )
        for releases, torch, proofs, targets in (
            (">=5.1,<5.24", ">=2.6", ("dbrx", "longcat_flash"), _LOOPS),
            (">=5.24", ">=2.6,<2.13", ("dbrx", "longcat_flash"), _LOOPS),
            (">=5.24", ">=2.13", ("dbrx",), _OTHER_LOOPS),
        )
    ),
    _variant(
        ">=5.24",
        ("longcat_flash", "step3p7_export"),
        _LONGCAT,
        (*_LONGCAT_LOOP, *_GATED),
        "_expert_scan:patch_own_experts_forward",
        _SCANNED,
        ">=2.13",
    ),
)
