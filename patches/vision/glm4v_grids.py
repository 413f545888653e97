"""GLM-4V's vision tower walks over the sizes of images with loops of its own.

Symptom: GLM-4V, its mixture of experts and GLM-OCR, transformers 4.53 to 5.8: `Cannot call numel() on tensor with
symbolic sizes/strides`, or `GuardOnDataDependentSymNode`.
Cause: as that of `qwen-vl-grids`; besides, `rot_pos_emb` returns the places of patches too, and the embeddings repeat
the size of each image as often as it has patches. Attention of 4.53 is that of Qwen2-VL then; see `segment-attention`,
which finds that of later releases by its words.
What is done: as in these two; the embeddings are given the size of its image for each patch.
Can go: with transformers 5.9, where the tower computes with the functions of `vision_utils` (see `qwen-vl-grids`).
"""

from exportcompat.registry import PatchingSpec

_TOWERS = {"glm4v": "Glm4vVision", "glm4v_moe": "Glm4vMoeVision", "glm_ocr": "GlmOcrVision"}
_SOURCE = "https://github.com/huggingface/transformers/blob/{}/src/transformers/models/glm4v/modeling_glm4v.py"


def _targets(*names: str) -> tuple[str, ...]:
    """Return the methods of the towers of models; GLM-OCR has no embeddings of its own."""
    parts = {name: f"transformers.models.{name}.modeling_{name}:{_TOWERS[name]}" for name in names}
    methods = [f"{part}Model.{method}" for part in parts.values() for method in ("forward", "rot_pos_emb")]
    return (*methods, *(f"{part}Embeddings.forward" for name, part in parts.items() if name != "glm_ocr"))


def _variant(releases: str, names: tuple[str, ...], source: str, more: tuple[str, ...] = ()) -> PatchingSpec:
    return PatchingSpec(
        id="glm4v-grids",
        targets=(*_targets(*names), *more),
        replacement="exportcompat.patches.vision._glm4v:from_sizes",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="GLM-4V loops over the sizes of images, which are data: no graph.",
        upstream=(_SOURCE.format(source),),
        proofs=tuple(f"{name}_vision" for name in names),
        kind="wrap",
    )


_MODULE = "transformers.models.glm4v.modeling_glm4v"
_ATTENTION = f"{_MODULE}:Glm4vVisionAttention.forward"
_MASK = f"{_MODULE}:Glm4vVisionModel._prepare_attention_mask"

SPECS = (
    _variant(">=4.53,<4.53.1", ("glm4v",), "v4.53.0", (_ATTENTION,)),
    _variant(">=4.53.1,<4.54", ("glm4v",), "v4.53.3", (_ATTENTION, _MASK)),
    _variant(">=4.54,<4.56", ("glm4v",), "v4.55.4"),
    _variant(">=4.56,<5.1", ("glm4v", "glm4v_moe"), "v4.57.6"),
    _variant(">=5.1,<5.9", ("glm4v", "glm4v_moe", "glm_ocr"), "v5.8.1"),
)
