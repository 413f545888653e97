"""Vision towers walk over the sizes of images with Python loops.

Symptom: Qwen2-VL, Qwen2.5-VL, Qwen3-VL, and from 5.9 on other models with such a tower: `GuardOnDataDependentSymNode`;
with sizes that are constants, a graph that is wrong for every other image.
Cause: the order of windows, the positions and the ends of frames are computed in loops over `grid_thw`, whose rows are
data, and so is the length of what the loops make.
What is done: while it is traced, a tower computes them from `grid_thw` with tensor operations. Everything is as
long as there are patches, which is the shape of an input: no length is data. The ends of frames and windows come once
for each patch, so they repeat.
If sizes and patches do not fit, ONNX Runtime stops with an index out of range.
Can go: when upstream does so (5.15 does for interpolation, with lengths that are data).
"""

from exportcompat.registry import PatchingSpec

_MODELS = "transformers.models"
_TOWERS = {
    "qwen2_vl": f"{_MODELS}.qwen2_vl.modeling_qwen2_vl:Qwen2VisionTransformerPretrainedModel",
    "qwen2_5_vl": f"{_MODELS}.qwen2_5_vl.modeling_qwen2_5_vl:Qwen2_5_VisionTransformerPretrainedModel",
    "qwen3_vl": f"{_MODELS}.qwen3_vl.modeling_qwen3_vl:Qwen3VLVisionModel",
    "qwen2_5_omni": f"{_MODELS}.qwen2_5_omni.modeling_qwen2_5_omni:Qwen2_5OmniVisionEncoder",
    "qwen3_vl_moe": f"{_MODELS}.qwen3_vl_moe.modeling_qwen3_vl_moe:Qwen3VLMoeVisionModel",
    "qwen3_omni_moe": f"{_MODELS}.qwen3_omni_moe.modeling_qwen3_omni_moe:Qwen3OmniMoeVisionEncoder",
}
_WINDOWS = ("forward", "rot_pos_emb", "get_window_index")
_TABLE = ("forward", "rot_pos_emb", "fast_pos_embed_interpolate")
_METHODS = {
    "qwen2_vl": ("forward", "rot_pos_emb"),
    "qwen2_5_vl": _WINDOWS,
    "qwen3_vl": _TABLE,
    "qwen2_5_omni": _WINDOWS,
    "qwen3_vl_moe": _TABLE,
    "qwen3_omni_moe": _TABLE,
}
_UTILS = "transformers.vision_utils"
_FUNCTIONS = ("get_vision_cu_seqlens", "get_vision_position_ids", "get_vision_window_index")
"""Functions that all towers compute with, from 5.9 on."""
_SOURCE = "https://github.com/huggingface/transformers/blob/{}/src/transformers/{}"


def _methods(*models: str) -> tuple[str, ...]:
    return tuple(f"{_TOWERS[model]}.{name}" for model in models for name in _METHODS[model])


def _functions(*more: str) -> tuple[str, ...]:
    """Return the towers of every model that computes with functions of `vision_utils`, and the functions."""
    names = (*_FUNCTIONS, *more)
    towers = (f"{_TOWERS[model]}.forward" for model in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl"))
    return (
        *towers,
        *(f"methods_using(transformers:{name})" for name in names),
        *(f"imported({_UTILS}:{name})" for name in names),
    )


def _variant(
    releases: str, targets: tuple[str, ...], proofs: tuple[str, ...], source: str, *defect: str
) -> PatchingSpec:
    return PatchingSpec(
        id="qwen-vl-grids",
        targets=targets,
        replacement="exportcompat.patches.vision._grid_methods:patch_grid_method",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="Loops over the sizes of images, which are data: no graph.",
        upstream=(source,),
        proofs=proofs,
        defect=defect,
        kind="wrap",
    )


_PROOFS = ("qwen2_vl_vision", "qwen2_5_vl_vision", "qwen3_vl_vision")

SPECS = (
    _variant(
        ">=4.45,<4.49",
        _methods("qwen2_vl"),
        _PROOFS[:1],
        _SOURCE.format("v4.48.3", "models/qwen2_vl/modeling_qwen2_vl.py"),
        r"\bfor .+ in |self\.rot_pos_emb\(",
    ),
    _variant(
        ">=4.49,<4.54",
        _methods("qwen2_vl", "qwen2_5_vl"),
        _PROOFS[:2],
        _SOURCE.format("v4.53.3", "models/qwen2_5_vl/modeling_qwen2_5_vl.py"),
        r"\bfor .+ in |self\.rot_pos_emb\(",
    ),
    _variant(
        ">=4.54,<4.57",
        _methods("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni"),
        (*_PROOFS[:2], "qwen2_5_omni_vision"),
        _SOURCE.format("v4.56.2", "models/qwen2_5_vl/modeling_qwen2_5_vl.py"),
        r"\bfor .+ in |self\.rot_pos_emb\(",
    ),
    _variant(
        ">=4.57,<5.9",
        _methods(*_TOWERS),
        _PROOFS,
        _SOURCE.format("v5.8.1", "models/qwen3_vl/modeling_qwen3_vl.py"),
        r"\bfor .+ in |self\.rot_pos_emb\(",
    ),
    _variant(
        ">=5.9,<5.15",
        _functions("get_vision_bilinear_indices_and_weights"),
        _PROOFS,
        _SOURCE.format("v5.14.1", "vision_utils.py"),
    ),
    _variant(
        ">=5.15",
        _functions("get_vision_attention_seqlens", "get_vision_interpolation_indices_and_weights"),
        _PROOFS,
        _SOURCE.format("v5.23.0", "vision_utils.py"),
    ),
)
