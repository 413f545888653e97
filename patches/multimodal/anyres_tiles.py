"""LLaVA-NeXT and LLaVA-OneVision take the features of each image apart by a size that is data.

Symptom: `Could not guard on data-dependent expression`, at `image_size.tolist()` in `image_size_to_num_patches`.
LLaVA-NeXT-Video splits the features of videos, whose number is then fixed.
Cause: loops over images compute, from the size of each, how many tiles it has, how they stand, which features are of
padding, and how far the others are resized.
What is done: while it is traced, all tiles go through the tower, those too that are there because another image has
more, and the features of all images are picked at once. Those of videos stay in one piece.
Can go: when upstream computes the layout from the tensor of sizes.
"""

from exportcompat.registry import PatchingSpec

_CLASSES = {"llava_next": "LlavaNext", "llava_onevision": "LlavaOnevision", "llava_next_video": "LlavaNextVideo"}
_SOURCE = "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models"
_VIDEO = "llava_next_video"


def _frames(suffix: str, releases: str) -> PatchingSpec:
    place = f"transformers.models.{_VIDEO}.modeling_{_VIDEO}:{_CLASSES[_VIDEO]}{suffix}"
    return PatchingSpec(
        id="llava-next-video-frames",
        targets=(f"{place}.get_video_features",),
        replacement="exportcompat.patches.multimodal._anyres_features:joining",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="Features are split by video, to be put together again: the graph has a fixed number of videos.",
        upstream=(f"{_SOURCE}/{_VIDEO}/modeling_{_VIDEO}.py",),
        proofs=("llava_next_video_frames",),
        kind="wrap",
    )


def _spec(
    name: str, suffix: str, method: str, replacement: str, releases: str, models: tuple[str, ...] = (*_CLASSES,)
) -> PatchingSpec:
    places = (f"{model}.modeling_{model}:{_CLASSES[model]}{suffix}" for model in models)
    return PatchingSpec(
        id=name,
        targets=tuple(f"transformers.models.{place}.{method}" for place in places),
        replacement=f"exportcompat.patches.multimodal._anyres_features:{replacement}",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="The tiles of each image are counted, split and packed by a size that is data: no graph.",
        upstream=tuple(f"{_SOURCE}/{model}/modeling_{model}.py" for model in models),
        proofs=models,
        kind="wrap",
    )


_WHOLE = "ForConditionalGeneration"

# To 4.47 the others expand placeholders by themselves, and eager stops where a text has all of them.
_FIRST = (">=4.46,<4.48", ("llava_onevision",))

SPECS = (
    _spec("anyres-tiles", _WHOLE, "get_image_features", "taking_all", *_FIRST),
    _spec("anyres-packing", _WHOLE, "pack_image_features", "packing_into_one", *_FIRST),
    _spec("anyres-tiles", _WHOLE, "get_image_features", "taking_all", ">=4.48,<4.52"),
    _spec("anyres-packing", _WHOLE, "pack_image_features", "packing_into_one", ">=4.48,<4.52"),
    _spec("anyres-tiles", "Model", "get_image_features", "taking_all", ">=4.52"),
    _spec("anyres-packing", "Model", "pack_image_features", "packing_into_one", ">=4.52,<4.53"),
    _spec("anyres-packing", "Model", "pack_image_features", "packing", ">=4.53"),
    _frames(_WHOLE, ">=4.48,<4.52"),
    _frames("Model", ">=4.52"),
)
