"""Convolutions of audio codecs ask how much they pad, of tensors.

Symptom: the codecs Mimi, Pocket TTS and WavTokenizer: `Could not guard on data-dependent expression Eq(u0, 1)`,
or `u20 + u21 + ... > 1`.
Cause: stride and size of a kernel are buffers, so that the padding that they give is a tensor, and `pad` takes numbers.
What is done: while it is traced, they are the numbers that the convolution has; the padding follows from the length.
Can go: when upstream computes the padding of numbers.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced


def patch_convolution_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Give `forward` of a convolution the numbers that it pads by."""

    def traced(self: Any, hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        names, numbers = vars(self), _numbers(self.conv)
        before = {name: names[name] for name in numbers if name in names}
        # What an instance has by a name hides its buffer and its method, which stay where they are.
        names.update(numbers)
        try:
            return original(self, hidden_states, *args, **kwargs)
        finally:
            for name in numbers:
                del names[name]
            names.update(before)

    return when_traced(original, traced)


def _numbers(convolution: Any) -> dict[str, Any]:
    """Return by name what upstream has in tensors, and the method that computes with them."""
    (stride,), (size,), (dilation,) = convolution.stride, convolution.kernel_size, convolution.dilation
    size = (size - 1) * dilation + 1
    total = size - stride

    def get_extra_padding(hidden_states: Any) -> Any:
        length = hidden_states.shape[-1] - size + total
        return (length + stride - 1) // stride * stride - length

    return {
        "stride": stride,
        "kernel_size": size,
        "padding_total": total,
        "padding_right": total // 2,
        "padding_left": total - total // 2,
        "_get_extra_padding_for_conv1d": get_extra_padding,
    }


_FILES = {
    "mimi": "Mimi",
    "pocket_tts_audio_tokenizer": "PocketTTSAudioTokenizer",
    "wavtokenizer": "WavTokenizer",
}
_TARGETS = tuple(f"transformers.models.{file}.modeling_{file}:{kind}Conv1d.forward" for file, kind in _FILES.items())
_UPSTREAM = tuple(source(f"models/{file}/modeling_{file}.py", "v5.24.0") for file in _FILES)

SPECS = variants(
    {
        "id": "codec-padding",
        "targets": _TARGETS,
        "replacement": f"{__name__}:patch_convolution_forward",
        "reason": "Convolutions of audio codecs compute their padding of tensors, and pad by numbers: no graph.",
        "upstream": _UPSTREAM,
        "proofs": ("mimi_encoder", "pocket_tts_encoder", "wavtokenizer_encoder"),
        "kind": "wrap",
    },
    {
        "transformers>=4.53,<5.24": {"targets": _TARGETS[:1], "upstream": _UPSTREAM[:1], "proofs": ("mimi",)},
        "transformers>=5.24": {},
    },
)
