"""Vision towers of Qwen-VL and of models that have copied them, alone and with a language model."""

from typing import Any

from ._case import Case, call, has_model
from .encoders import forward_case

_MODELS, _COPY_MODELS = "_qwen_vl_models", "_qwen_vl_copies"
_FAMILY = (("qwen2_vl", "Qwen2-VL"), ("qwen2_5_vl", "Qwen2.5-VL"), ("qwen3_vl", "Qwen3-VL"))
_COPIES = {
    "qwen2_5_omni": "Qwen2.5-Omni",
    "qwen3_vl_moe": "Qwen3-VL-MoE",
    "qwen3_omni_moe": "Qwen3-Omni-MoE",
    "qwen3_5": "Qwen3.5",
    "qwen3_5_moe": "Qwen3.5-MoE",
    "glm4v": "GLM-4V",
    "glm4v_moe": "GLM-4V-MoE",
    "glm_ocr": "GLM-OCR",
    "ernie4_5_vl_moe": "ERNIE 4.5 VL",
    "paddleocr_vl": "PaddleOCR-VL",
    "kimi_k25": "Kimi K2.5",
    "muse_spark": "Muse Spark",
    "muse_glimmer": "Muse Glimmer",
    "inkling2": "Inkling 2",
}
"""Models with a vision tower like those of Qwen-VL."""


def _vision_encoder(name: str, title: str, models: str, factory: str, *arguments: str, **more: Any) -> Case:
    """Return the case of a vision tower alone."""
    make = call(f"{models}:{factory}", *arguments)
    return forward_case(f"{name}_vision", f"{title}, vision tower", make, has_model(name), **more)


def _refusals(name: str, title: str) -> Case:
    """Return the case of the errors for texts and images that do not fit each other."""
    what, compare = f"{title}, texts that do not fit the images are refused", call("_refusals:compare_refusals")
    return Case(f"{name}_refused", what, call(f"{_MODELS}:make_{name}_whole"), has_model(name), compare=compare)


def _whole(name: str, title: str, make: str, *arguments: str, **more: Any) -> Case:
    """Return the case of a model of images and text."""
    return forward_case(name, f"{title}, images and text", call(make, *arguments), has_model(name), **more)


CASES = (
    *(
        _vision_encoder(
            name,
            title,
            _MODELS,
            f"make_{name}",
            everywhere=True,
            slow_without=("segment-attention",) if name in ("qwen2_vl", "qwen2_5_vl") else (),
        )
        for name, title in _FAMILY
    ),
    *(_whole(name, title, f"{_MODELS}:make_{name}_whole", everywhere=True) for name, title in _FAMILY),
    *(_refusals(name, title) for name, title in _FAMILY),
    forward_case(
        "qwen2_vl_flat",
        "Qwen2-VL, images and text, from a configuration of one level",
        call("_qwen_vl_flat_model:make_qwen2_vl_flat"),
        has_model("qwen2_vl"),
    ),
    *(
        forward_case(
            f"{name}_video",
            f"{title}, images, videos and text",
            call("_qwen_vl_video_models:make_video", name),
            has_model(name),
        )
        for name, title in _FAMILY
    ),
    *(_vision_encoder(name, title, _COPY_MODELS, "make_copy", name) for name, title in _COPIES.items()),
    *(
        _whole(name, _COPIES[name], f"{_COPY_MODELS}:make_whole_copy", name)
        for name in ("qwen3_vl_moe", "qwen3_5", "glm4v", "ernie4_5_vl_moe", "paddleocr_vl")
    ),
    Case(
        "qwen2_5_vl_generate",
        "Qwen2.5-VL, images and text with a cache",
        call(f"{_MODELS}:make_qwen2_5_vl_generate"),
        has_model("qwen2_5_vl"),
        compare=call(f"{_MODELS}:compare_generated"),
        everywhere=True,
    ),
)
