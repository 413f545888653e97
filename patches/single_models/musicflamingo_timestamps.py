"""A file of Music Flamingo stops in a call without sounds, which each call behind the first one is.

Symptom: ONNX Runtime: `Non-zero status code returned while running` a node of `audio_tower`'s rotary embedding, in a
call without sounds; eager skips them there.
Cause: `_build_audio_timestamps` puts a 0 before the sums of the lengths of all sounds, and leaves out the last sum. Of
no sounds that makes one row, and everything beside it has none.
What is done: while it is traced, what comes before each sound is its sum without its own length: as many numbers as
there are sounds, and the same ones.
Can go: when upstream subtracts the lengths, or when graphs can skip the sounds.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants


def patch_build_audio_timestamps(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_build_audio_timestamps` return a row for each sound, also for none, while it is traced."""
    import torch

    from exportcompat.patches.toolkit.function_modes import Override
    from exportcompat.patches.toolkit.wrapping import when_traced

    def traced(self: Any, input_ids: Any, post_lengths: Any, max_post_length: Any) -> Any:
        def joined(*_: Any, **__: Any) -> Any:
            return (torch.cumsum(post_lengths, dim=0) - post_lengths).float()

        with Override({torch.cat: joined}):
            return original(self, input_ids, post_lengths, max_post_length)

    return when_traced(original, traced)


_MODULE = "transformers.models.musicflamingo.modeling_musicflamingo"
_SOURCE = "models/musicflamingo/modeling_musicflamingo.py"

SPECS = variants(
    {
        "id": "musicflamingo-timestamps",
        "targets": (f"{_MODULE}:MusicFlamingoModel._build_audio_timestamps",),
        "replacement": f"{__name__}:patch_build_audio_timestamps",
        "reason": "The sums of the lengths of sounds have one row for no sounds: ONNX Runtime stops at the next token.",
        "proofs": ("musicflamingo",),
        "kind": "wrap",
    },
    {
        "transformers>=5.5,<5.10": {
            "targets": (f"{_MODULE}:MusicFlamingoForConditionalGeneration._build_audio_timestamps",),
            "upstream": (source(_SOURCE, "v5.6.0"),),
        },
        "transformers>=5.10": {"upstream": (source(_SOURCE, "v5.24.0"),)},
    },
)
