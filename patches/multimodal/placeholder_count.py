"""That there are as many features as tokens for them is checked by a branch on data, or by an operator that ONNX lacks.

Symptom: Qwen2-VL, Qwen2.5-VL, Qwen3-VL as a whole: `GuardOnDataDependentSymNode` (to 4.52, 4.55 to 4.57), `No ONNX
function found for aten._is_all_true` (from 5.12 on); with `torch-onnx-check-leftovers`, and from 5.0 to 5.11, a file
that takes any number.
Cause: `n_image_tokens != n_image_features` with the number from `.item()` (to 4.52);
`inputs_embeds[mask].numel() != image_features.numel()`; `torch_compilable_check` of a tensor. 4.53 and 4.54 check
nothing while they are traced; what 5.0 to 5.11 check is an assertion of the graph, which the exporter drops.
What is done: while it is traced, the graph checks it: ONNX Runtime stops with an index out of range. To 4.52 the check
is in the middle of `forward`, which does without it, and without the tower, if it is given embeddings; so it is given
those of the tokens with the features in their places.
Can go: when ONNX has assertions.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_get_placeholder_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `get_placeholder_mask` check in the graph while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

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
    # The index has an axis: one without is a number to torch 2.6, which asks for it.
    return mask & torch.ones(1, dtype=torch.bool, device=mask.device)[torch.where(does_fit, 0, 1)[None]]


def patch_qwen_vl_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of a model with a vision encoder take embeddings with the features while it is traced."""
    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        from exportcompat.patches.toolkit.tracing import is_traced

        call = signature.bind(self, *args, **kwargs)
        if call.arguments.get("inputs_embeds") is None and is_traced(call.arguments.get("input_ids")):
            _fill(self, call.arguments)
        return original(*call.args, **call.kwargs)

    return forward


_MEDIA = (
    ("get_image_features", "image_token_id", "pixel_values", "image_grid_thw"),
    ("get_video_features", "video_token_id", "pixel_values_videos", "video_grid_thw"),
)


def _fill(model: Any, given: dict[str, Any]) -> None:
    """Take the patches out of the arguments of a call, and put in embeddings, `(batch, sequence, hidden)`."""
    embeddings = model.get_input_embeddings()(given["input_ids"])
    for method, token, rows, sizes in _MEDIA:
        if given.get(rows) is not None:
            features = _features(model, method, given.pop(rows), given[sizes]).to(embeddings)
            mask = (given["input_ids"] == getattr(model.config, token))[..., None].expand_as(embeddings)
            embeddings = embeddings.masked_scatter(_with_check(mask, features), features)
    given["inputs_embeds"] = embeddings


def _features(model: Any, method: str, rows: Any, sizes: Any) -> Any:
    """Return the features of images, `(features, hidden)`; from 4.52 on, `image-count` lets there be none."""
    from ._blank_image import append_padding_image

    if hasattr(model, method):
        return getattr(model, method)(rows, sizes)
    rows, sizes = append_padding_image(rows, sizes, model.visual.spatial_merge_size)
    return model.visual(rows.to(model.visual.dtype), grid_thw=sizes)[:-1]


_TARGETS = (
    "transformers.models.qwen2_vl.modeling_qwen2_vl:Qwen2VLModel.get_placeholder_mask",
    "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl:Qwen2_5_VLModel.get_placeholder_mask",
    "transformers.models.qwen3_vl.modeling_qwen3_vl:Qwen3VLModel.get_placeholder_mask",
)
_SOURCE = "https://github.com/huggingface/transformers/blob/{0}/src/transformers/models/{1}/modeling_{1}.py"


_WHOLE = (
    "transformers.models.qwen2_vl.modeling_qwen2_vl:Qwen2VLForConditionalGeneration.forward",
    "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl:Qwen2_5_VLForConditionalGeneration.forward",
)
_MODEL25 = "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl:Qwen2_5_VLModel.forward"
_PROOFS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")
_REFUSED = ("qwen2_vl_refused", "qwen2_5_vl_refused")


def _variant(
    releases: str, factory: str, targets: tuple[str, ...], proofs: tuple[str, ...], tag: str, model: str = "qwen2_5_vl"
) -> PatchingSpec:
    return PatchingSpec(
        id="placeholder-count",
        targets=targets,
        replacement=f"{__name__}:{factory}",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="Whether features and tokens are as many is a branch on data, or an operator that ONNX lacks: no graph.",
        upstream=(_SOURCE.format(tag, model),),
        proofs=proofs,
        kind="wrap",
    )


SPECS = (
    _variant(">=4.45,<4.49", "patch_qwen_vl_forward", _WHOLE[:1], _PROOFS[:1], "v4.48.3", "qwen2_vl"),
    _variant(">=4.49,<4.52", "patch_qwen_vl_forward", _WHOLE, _PROOFS[:2], "v4.51.3"),
    # That of Qwen2-VL does not check what is traced, from 4.52 on.
    _variant(">=4.52,<4.53", "patch_qwen_vl_forward", (_MODEL25,), _PROOFS[1:2], "v4.52.4"),
    _variant(">=4.55,<4.57", "patch_get_placeholder_mask", _TARGETS[:2], _PROOFS[:2], "v4.56.2"),
    _variant(">=4.57,<5", "patch_get_placeholder_mask", _TARGETS, _PROOFS, "v4.57.6"),
    # There is a graph without it (from 5.12 on with torch 2.8), which refuses nothing; Qwen3-VL's stops by itself.
    _variant(">=5.0,<5.12", "patch_get_placeholder_mask", _TARGETS, _REFUSED, "v5.6.0"),
    _variant(">=5.12", "patch_get_placeholder_mask", _TARGETS, _REFUSED, "v5.23.0"),
)
