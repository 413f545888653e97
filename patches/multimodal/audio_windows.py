"""The windows of sounds that are attended to are counted in a Python list, sound by sound.

Symptom: Qwen3-ASR: `GuardOnDataDependentSymNode`.
Cause: `get_audio_cu_seqlens` adds as many ends of windows to a list as a sound has, which is data. Attention asks
whether there is more than one moment, of which there are as many as the mask says; without a sound there is none.
What is done: while it is traced, there are as many windows as chunks and sounds, and those that are not needed are
empty. Qwen3-ASR gets one short sound more, whose states are dropped.
Can go: when upstream computes the ends with tensors.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced

_MOMENTS, _FRAMES = 2, 16
"""States of the sound that is added, and the frames that they are made of by three convolutions of stride 2."""


def patch_windows(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return ends of windows that are computed, or give an encoder one sound more, whose states are dropped."""
    return _with_a_sound(original) if original.__name__ == "forward" else _with_ends(original)


def _with_a_sound(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward` of an encoder that takes `(sounds, bins, frames)`, none included."""
    import torch

    from exportcompat.patches.toolkit.function_modes import Override

    def nonzero(pick: Callable[..., Any], mask: Any) -> Any:
        found = pick(mask)
        torch._check(found.shape[0] >= _MOMENTS)
        return found

    def forward(self: Any, input_features: Any, input_features_mask: Any, **kwargs: Any) -> Any:
        if kwargs.get("cu_seqlens") is not None:
            return original(self, input_features, input_features_mask, **kwargs)
        one = torch.arange(input_features.shape[2], device=input_features.device) < _FRAMES
        features = torch.cat([input_features, input_features.new_zeros(1, *input_features.shape[1:])])
        mask = torch.cat([input_features_mask, one[None].to(input_features_mask.dtype)])
        with Override({torch.Tensor.nonzero: nonzero}):
            found = original(self, features, mask, **kwargs)
        if isinstance(found, tuple):
            return found[0][:-_MOMENTS], *found[1:]
        found["last_hidden_state"] = found.last_hidden_state[:-_MOMENTS]
        return found

    return when_traced(original, forward)


def _with_ends(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return 0 and the ends of the windows of all sounds, `(1 + sounds + chunks,)`; the last one may repeat."""
    lengths_behind = original.__globals__["_get_feat_extract_output_lengths"]

    def traced(
        chunk_lengths: Any, feature_lens: Any, n_window_infer: int, n_window: int, kwargs: dict[str, Any] | None = None
    ) -> Any:
        import torch

        if (kwargs or {}).get("cu_seqlens") is not None:
            return original(chunk_lengths, feature_lens, n_window_infer, n_window, kwargs)
        # Upstream takes it away, as the layers are given another one.
        (kwargs or {}).pop("cu_seqlens", None)
        lengths = lengths_behind(feature_lens, n_window)
        window = lengths_behind(chunk_lengths, n_window).max().clamp(min=1) * (n_window_infer // (n_window * 2))
        windows = (lengths + window - 1) // window
        behind = windows.cumsum(0)
        # No window is shorter than a chunk, so there are as many places as windows, and more.
        place = torch.arange(chunk_lengths.shape[0] + lengths.shape[0], device=lengths.device)
        sound = (place[:, None] >= behind).sum(1).clamp(max=lengths.shape[0] - 1)
        inside = (place - (behind - windows)[sound] + 1) * window
        ends = torch.minimum(inside, lengths[sound]) + (lengths.cumsum(0) - lengths)[sound]
        return torch.nn.functional.pad(ends, (1, 0)).to(torch.int32)

    return when_traced(original, traced)


SPECS = variants(
    {
        "id": "audio-windows",
        "targets": (
            "transformers.models.qwen3_asr.modeling_qwen3_asr:get_audio_cu_seqlens",
            "transformers.models.qwen3_asr.modeling_qwen3_asr:Qwen3ASREncoder.forward",
        ),
        "replacement": f"{__name__}:patch_windows",
        "reason": "The ends of windows of sounds are as many as the data say, in a list: no graph.",
        "upstream": (source("models/qwen3_asr/modeling_qwen3_asr.py", "v5.24.0"),),
        "proofs": ("qwen3_asr_encoder",),
        "kind": "wrap",
    },
    {"transformers>=5.15": {}},
)
