"""The result of a model with images holds what its encoders have returned, an item for each image among it.

Symptom: a file has outputs for as many images as were traced (`image_outputs.pooler_output.0`, ...), and those of other
calls differ from eager in number and in shape.
Cause: from transformers 5.24 on `image_outputs`, `video_outputs` and `audio_outputs` are parts of the result of a
multimodal model, and the features in them are a list. A graph has one number of outputs.
What is done: while it is traced, a result is without these parts. Encoders can be exported by themselves.
Can go: when upstream has features in a tensor, or leaves them out.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.encoder_outputs import ENCODER_OUTPUTS
from exportcompat.registry import PatchingSpec


def patch_multimodal_output(original: Callable[..., Any]) -> Callable[..., Any]:
    """Leave what encoders have returned out of a result while it is traced."""
    import torch

    from exportcompat.patches.toolkit.tracing import is_traced

    def shorter(self: Any) -> None:
        held = vars(self)
        if any(is_traced(value) for value in held.values() if isinstance(value, torch.Tensor)):
            for name in held.keys() & set(ENCODER_OUTPUTS):
                held[name] = None
                # A result is a dictionary too, which refuses to be made shorter.
                OrderedDict.pop(self, name, None)
        original(self)

    return shorter


SPECS = (
    PatchingSpec(
        id="multimodal-encoder-outputs",
        targets=("transformers.modeling_outputs:MultimodalModelOutput.__post_init__",),
        replacement=f"{__name__}:patch_multimodal_output",
        requires=("transformers>=5.24", "torch>=2.6"),
        reason="A result holds the features of each image, and a graph has one number of outputs: wrong for others.",
        upstream=("https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/modeling_outputs.py",),
        proofs=("qwen2_5_vl_generate",),
        kind="wrap",
    ),
)
