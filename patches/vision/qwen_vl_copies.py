"""Other models have copied the vision towers of Qwen-VL, with their loops over the sizes of images.

Symptom: Qwen3.5 and its mixture of experts, ERNIE 4.5 VL, transformers 5.2 to 5.8: `GuardOnDataDependentSymNode`.
Cause: as that of `qwen-vl-grids`.
What is done: as in `qwen-vl-grids`, in these towers.
Can go: with transformers 5.9, where they compute with the functions of `vision_utils`, which `qwen-vl-grids` knows.
"""

from exportcompat.registry import PatchingSpec

_MODELS = "transformers.models"
_TABLE = ("forward", "rot_pos_emb", "fast_pos_embed_interpolate")
_TOWERS = {
    f"{_MODELS}.qwen3_5.modeling_qwen3_5:Qwen3_5VisionModel": _TABLE,
    f"{_MODELS}.qwen3_5_moe.modeling_qwen3_5_moe:Qwen3_5MoeVisionModel": _TABLE,
    f"{_MODELS}.ernie4_5_vl_moe.modeling_ernie4_5_vl_moe:Ernie4_5_VLMoeVisionTransformerPretrainedModel": _TABLE[:2],
}


def _variant(releases: str, towers: list[str], proofs: tuple[str, ...]) -> PatchingSpec:
    return PatchingSpec(
        id="qwen-vl-copies",
        targets=tuple(f"{tower}.{method}" for tower in towers for method in _TOWERS[tower]),
        replacement="exportcompat.patches.vision._grid_methods:in_graph",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="Copies of Qwen-VL's towers loop over the sizes of images, which are data: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.8.1/src/transformers/models/qwen3_5/modeling_qwen3_5.py",
        ),
        proofs=proofs,
        kind="wrap",
    )


_PROOFS = ("qwen3_5_vision", "qwen3_5_moe_vision", "ernie4_5_vl_moe_vision")

SPECS = (
    # The tower of ERNIE 4.5 VL had another name.
    _variant(">=5.2,<5.3", list(_TOWERS)[:2], _PROOFS[:2]),
    _variant(">=5.3,<5.9", list(_TOWERS), _PROOFS),
)
