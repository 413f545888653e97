"""Granite Speech to 4.57 counts tokens of sounds in Python, and attends within blocks along an axis of their own.

Symptom: `Could not guard on data-dependent expression Eq(u0, 1)`, as soon as a mask of the features is given; a file in
which ONNX Runtime stops where a text has no sound: `Batch size must be greater than 0`.
Cause: `if torch.all(tokens != features).item()`, in `get_merged_audio_embeddings`; `scaled_dot_product_attention` of
`(sounds, blocks, heads, length, channels)`, which is another operator than that of four axes.
What is done: while it is traced, the question is not asked: a file puts features into places as long as there are some.
Blocks are rows of the batch, as they are from transformers 5 on.
Can go: with transformers 5.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import PatchingSpec


def patch_count_or_attention(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method that merges, without its question, or `forward` of attention within blocks."""
    import torch

    from exportcompat.patches.toolkit.function_modes import Override

    handlers: dict[Any, Callable[..., Any]]
    if original.__name__ == "forward":
        # What upstream calls may be replaced itself.
        handlers = {torch._C._nn.scaled_dot_product_attention: _within_blocks}
    else:
        # Nothing else in it is compared or becomes a number. To compare would make the sounds as many as the texts.
        handlers = {
            torch.Tensor.ne: lambda ne, tokens, features: torch.zeros(1, dtype=torch.bool),
            torch.Tensor.item: lambda item, tensor: False,
        }

    def traced(*args: Any, **kwargs: Any) -> Any:
        with Override(handlers):
            return original(*args, **kwargs)

    return when_traced(original, traced)


def _within_blocks(
    attend: Callable[..., Any], query: Any, key: Any, value: Any, attn_mask: Any, *args: Any, **kwargs: Any
) -> Any:
    """Return attention of tensors of the axes `(sounds, blocks, heads, length, channels)`, as has its mask."""
    from torch.nn.functional import scaled_dot_product_attention

    rows = [tensor.flatten(0, 1) for tensor in (query, key, value, attn_mask)]
    return scaled_dot_product_attention(*rows, *args, **kwargs).reshape(query.shape)


_MODULE = "transformers.models.granite_speech.modeling_granite_speech"

SPECS = (
    PatchingSpec(
        id="granite-speech-older",
        targets=(
            f"{_MODULE}:GraniteSpeechForConditionalGeneration.get_merged_audio_embeddings",
            f"{_MODULE}:GraniteSpeechConformerAttention.forward",
        ),
        replacement=f"{__name__}:patch_count_or_attention",
        requires=("transformers>=4.53,<5", "torch>=2.6"),
        reason="Granite Speech compares counts in Python, and attends along five axes: no graph, or one that stops.",
        upstream=(source("models/granite_speech/modeling_granite_speech.py", "v4.57.6"),),
        proofs=("granite_speech_export",),
        defect=(r"sum\(dim=1\)\)\.item\(\)",),
        kind="wrap",
    ),
)
