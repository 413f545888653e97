"""`generate` encodes images before it calls `forward`.

Symptom: what is observed of Qwen2-VL, Qwen2.5-VL, Qwen3-VL has `mm_encoder_outputs`, a tensor for each image, and no
`pixel_values`: a graph of it takes as many images as the sample has, and has no vision tower.
Cause: from 5.18 on `generate` calls `get_image_features` itself where `forward` takes what it returns.
What is done: within a scope the model does not say that its `forward` takes it, so `generate` hands over the pixels, as
it did before 5.18. The numbers are the same.
Can go: when `generate` has a way to ask for that.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def never(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `_supports_mm_encoder_outputs` with the answer no."""

    def _supports_mm_encoder_outputs(self: Any) -> bool:
        return False

    return _supports_mm_encoder_outputs


_MODELS = (
    "transformers.models.qwen2_vl.modeling_qwen2_vl:Qwen2VLForConditionalGeneration",
    "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl:Qwen2_5_VLForConditionalGeneration",
    "transformers.models.qwen3_vl.modeling_qwen3_vl:Qwen3VLForConditionalGeneration",
)

SPECS = (
    PatchingSpec(
        id="vision-encoded-ahead",
        targets=tuple(f"{model}._supports_mm_encoder_outputs" for model in _MODELS),
        replacement=f"{__name__}:never",
        requires=("transformers>=5.18", "torch>=2.6"),
        reason="generate hands over features image by image: a graph for as many images as the sample has.",
        upstream=("https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/generation/utils.py",),
        proofs=("qwen2_5_vl_generate",),
        kind="replace",
    ),
)
