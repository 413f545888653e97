"""Maps that are resized to a height or width of one have other numbers in the file.

Symptom: off by 2 to 5 for LLaVA-OneVision with videos, whose frames are halved, where a frame has two patches on a
side; for any model that resizes its maps bilinearly or bicubically to one row or column. Nothing is said.
Cause: to onnxscript 0.7.0 they become a `Resize` with `pytorch_half_pixel`, which takes the first element where one is
left. Torch takes the middle, as it does for any other size.
What is done: it becomes a `Resize` with `half_pixel`, which is the same rule for all other sizes.
Can go: with onnxscript 0.7.0; 0.7.1 does the same.
"""

from collections.abc import Callable

from exportcompat.registry import PatchingSpec

_WRONG_FOR_ONE = "pytorch_half_pixel"


def patch_upsample_align_corners_mode(original: Callable[[bool], str]) -> Callable[[bool], str]:
    """Make the function that names the rule by which maps are resized name the one that holds for a size of one too."""

    def get_upsample_align_corners_mode(align_corners: bool) -> str:
        found = original(align_corners)
        return "half_pixel" if found == _WRONG_FOR_ONE else found

    return get_upsample_align_corners_mode


SPECS = (
    PatchingSpec(
        id="torch-onnx-resize-to-one",
        targets=("onnxscript.function_libs.torch_lib.ops.nn:_get_upsample_align_corners_mode",),
        replacement=f"{__name__}:patch_upsample_align_corners_mode",
        requires=("torch>=2.6", "onnxscript<0.7.1"),
        reason="Maps that are resized to one row or column are those of another place: wrong numbers.",
        upstream=("https://github.com/microsoft/onnxscript/blob/v0.7.0/onnxscript/function_libs/torch_lib/ops/nn.py",),
        proofs=("llava_onevision_video",),
        kind="wrap",
    ),
)
