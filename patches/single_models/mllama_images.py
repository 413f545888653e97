"""Mllama's keys of images are in its cache or in the call, and one graph is to serve texts with and without images.

Symptom: `The size of tensor a (s7 + (((260*s99)//s36))) must match the size of tensor b (260)` in the attention to
images; with that mended, `Integer division by zero` in a call without images.
Cause: the first call has images and no past, and later calls have the past; a text without images skips the layers that
attend to images. The masks say how many images there are by sizes of their own, and that these agree is not known.
What is done: while it is traced, masks and ids are looked up by the number of images, and the mask over images by the
length of the keys and with a row of zeros for each text that has none, which is as if the layer were skipped. Where two
sizes differ otherwise, which eager refuses, a look-up is out of range, which ONNX Runtime refuses.
Can go: when upstream makes the mask of the keys that there are.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of Mllama take images or none while it is traced."""
    from ._mllama_arguments import with_images_or_none

    return with_images_or_none(original)


SPECS = (
    PatchingSpec(
        id="mllama-images",
        targets=(
            "transformers.models.mllama.modeling_mllama:MllamaModel.forward",
            "transformers.models.mllama.modeling_mllama:MllamaTextCrossAttention.forward",
        ),
        replacement=f"{__name__}:patch_forward",
        requires=("transformers>=4.55", "torch>=2.6"),
        reason="Keys of images are in the cache or in the call, and a mask is as long as both together: no graph.",
        upstream=tuple(source("models/mllama/modeling_mllama.py", tag) for tag in ("v4.57.6", "v5.24.0")),
        proofs=("mllama_export",),
        kind="wrap",
    ),
)
