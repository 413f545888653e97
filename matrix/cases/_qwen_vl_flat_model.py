"""Qwen2-VL from a configuration of one level, as its checkpoints have it: the text is described beside the tower."""

from ._qwen_vl_models import _ROTARY, _TEXT, _TOKENS, ImageText, make_qwen2_vl, make_whole


def make_qwen2_vl_flat() -> ImageText:
    """Build Qwen2-VL, with the tower of `make_qwen2_vl`."""
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    vision = {**make_qwen2_vl().model.config.to_dict(), "depth": 2}
    rotary = {"rope_scaling": dict(_ROTARY), "rope_parameters": dict(_ROTARY)}
    return make_whole(
        Qwen2VLForConditionalGeneration(Qwen2VLConfig(**_TEXT, **rotary, **_TOKENS, vision_config=vision))
    )
