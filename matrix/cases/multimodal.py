"""Models that see images or hear sounds, each as one graph for all of its calls."""

from typing import Any

from ._case import COMPARE_END_TO_END, EXPORT_END_TO_END, Call, Case, call, has_model

_MODELS = "_multimodal_models"
COMPARE = call("_conversations:compare_media")
"""Runs calls with and without images or sounds on one cache."""


def _case(name: str, title: str, **more: Any) -> Case:
    make, exists = call(f"{_MODELS}:make_media", name), call(f"{_MODELS}:exists", name)
    return Case(name, title, make, exists, compare=COMPARE, **more)


IMAGE_BY_IMAGE = {
    "apertus1p5": "Apertus 1.5",
    "cosmos3_edge": "Cosmos 3 Edge",
    "deepseek_ocr2": "DeepSeek-OCR 2",
    "emu3": "Emu3",
    "hunyuan_vl": "HunYuan-VL",
    "lfm3_vl": "LFM3-VL",
    "minicpm_ocr": "MiniCPM-OCR",
    "minicpmv4_6": "MiniCPM-V 4.6",
    "minicpmv4_7": "MiniCPM-V 4.7",
    "nemotron_h_omni": "Nemotron-H Omni",
    "step3p7": "Step 3.7",
}
"""Models whose graphs are right for images of one size, built as the zoo builds them."""


def _by_export(name: str, title: str, make: Call) -> Case:
    """Return a case that goes by `export` alone."""
    return Case(
        f"{name}_export",
        f"{title}, by `export`",
        make,
        has_model(name),
        compare=COMPARE_END_TO_END,
        write=EXPORT_END_TO_END,
    )


def _of_the_zoo(name: str, title: str, *task: str) -> Case:
    """Return a case of a model that the zoo builds."""
    return _by_export(name, title, call("_zoo_models:make_zoo_model", name, *task))


CASES = (
    _case("gemma3_image", "Gemma3 with images, window 8", everywhere=True),
    _case("idefics3", "Idefics3", everywhere=True),
    _case("llava", "LLaVA", everywhere=True),
    _case("paligemma", "PaliGemma", everywhere=True),
    _case("qwen2_audio", "Qwen2-Audio", everywhere=True),
    _case("smolvlm", "SmolVLM", everywhere=True),
    _case("llava_pixtral", "LLaVA with Pixtral's tower, images of their own sizes"),
    _case("mistral3", "Mistral 3, images of their own sizes", slow_without=("mistral3-patch-merging",)),
    _case("mistral_large4", "Mistral Large 4, images of their own sizes", slow_without=("mistral-large4-squares",)),
    _case("lighton_ocr", "LightOnOCR, images of their own sizes", slow_without=("lighton-ocr-patch-merging",)),
    _case("vipllava", "VipLLaVA"),
    _case("aya_vision", "Aya Vision, window 8"),
    _case("cohere2_vision", "Cohere2 Vision, window 8"),
    _case("internvl", "InternVL"),
    _case("idefics2", "Idefics2"),
    _case("deepseek_vl", "DeepSeek-VL"),
    _case("llava_next", "LLaVA-NeXT, images in tiles", slow_without=("anyres-tiles",)),
    _case("llava_onevision", "LLaVA-OneVision, images in tiles", slow_without=("anyres-tiles",)),
    _case("llava_next_video", "LLaVA-NeXT-Video, images in tiles"),
    _case("llava_next_video_frames", "LLaVA-NeXT-Video with videos", slow_without=("llava-next-video-frames",)),
    _case("llava_onevision_video", "LLaVA-OneVision with videos"),
    _case("video_llava", "Video-LLaVA with videos"),
    _case("ovis2", "Ovis2"),
    _case("voxtral", "Voxtral"),
    _case("musicflamingo", "Music Flamingo"),
    _case("gemma4_image", "Gemma 4 with images of their own sizes, window 8"),
    _case("lfm2_vl", "LFM2-VL, images of their own sizes", slow_without=("lfm2-vl-patch-merging",)),
    _by_export(
        "video_llama_3",
        "VideoLLaMA 3 with images of one size",
        call("_video_llama_3_model:make_video_llama_3"),
    ),
    _of_the_zoo("mllama", "Mllama, texts with and without an image"),
    _of_the_zoo("lfm2_vl", "LFM2-VL, images of their own sizes"),
    _of_the_zoo("granite_speech", "Granite Speech", "text2text-generation-with-past"),
    _of_the_zoo("granite_docling", "Granite Docling, tiles that a mask picks"),
    *(_of_the_zoo(name, f"{title} with images of one size") for name, title in IMAGE_BY_IMAGE.items()),
)
