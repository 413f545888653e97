"""That there are as many features as tokens for them is checked by a branch on data, or by an operator that ONNX lacks.

Symptom: Qwen2-VL, Qwen2.5-VL, Qwen3-VL as a whole: `GuardOnDataDependentSymNode` (4.55 to 4.57), `No ONNX function
found for aten._is_all_true` (5.x).
Cause: `inputs_embeds[mask].numel() != image_features.numel()`; `torch_compilable_check` of a tensor.
What is done: while it is traced, the graph checks it: ONNX Runtime stops with an index out of range.
Can go: when ONNX has assertions.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def checked(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `get_placeholder_mask`, made to check in the graph while it is traced."""
    from ._tracing import is_traced

    def get_placeholder_mask(
        self: Any, input_ids: Any, inputs_embeds: Any, image_features: Any = None, video_features: Any = None
    ) -> Any:
        if not is_traced(inputs_embeds):
            return original(self, input_ids, inputs_embeds, image_features, video_features)
        # Without features there is nothing to check.
        image_mask, video_mask = original(self, input_ids, inputs_embeds)
        return _with_check(image_mask, image_features), _with_check(video_mask, video_features)

    return get_placeholder_mask


def _with_check(mask: Any, features: Any) -> Any:
    """Return `mask`, `(batch, sequence, 1 or hidden)`; to compute it fails if there are more or less features.

    Without features it is False everywhere: in Python such a call leaves the tokens as they are.
    """
    import torch

    if features is None:
        return mask
    mask = mask & (torch.full((), features.shape[0], device=mask.device) > 0)
    does_fit = mask[..., 0].sum() == features.shape[0]
    return mask & torch.ones(1, dtype=torch.bool, device=mask.device)[torch.where(does_fit, 0, 1)]


_TARGETS = (
    "transformers.models.qwen2_vl.modeling_qwen2_vl:Qwen2VLModel.get_placeholder_mask",
    "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl:Qwen2_5_VLModel.get_placeholder_mask",
    "transformers.models.qwen3_vl.modeling_qwen3_vl:Qwen3VLModel.get_placeholder_mask",
)
_SOURCE = (
    "https://github.com/huggingface/transformers/blob/{}/src/transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py"
)


def _variant(releases: str, models: int, tag: str) -> PatchingSpec:
    return PatchingSpec(
        id="vision-placeholder-count",
        targets=_TARGETS[:models],
        replacement=f"{__name__}:checked",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="Whether features and tokens are as many is a branch on data, or an operator that ONNX lacks: no graph.",
        upstream=(_SOURCE.format(tag),),
        proofs=("qwen2_vl", "qwen2_5_vl", "qwen3_vl"),
        kind="wrap",
    )


SPECS = (_variant(">=4.55,<4.57", 2, "v4.56.2"), _variant(">=4.57", 3, "v5.23.0"))
