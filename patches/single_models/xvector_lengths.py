"""Heads that know voices (x-vectors) go through the sounds of a batch one by one, as long as a mask says.

Symptom: `tracing inferred a static shape` for the batch, as soon as a mask is given; without `Dim.DYNAMIC` a graph for
as many sounds as the sample has.
Cause: `for i, length in enumerate(lengths)`, where each sound has a mean and a deviation of `states[i, :length]`.
What is done: while it is traced, the loop has one turn with all lengths, and what it takes of the states is a mean and
a deviation of all sounds at once, in which the states behind a sound do not count.
Can go: when upstream has masked means.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import PatchingSpec


def patch_lengths_or_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of lengths that has them in a list of one, or `forward` that takes all sounds at once."""
    is_forward = original.__name__ == "forward"
    return when_traced(original, _pooling(original) if is_forward else lambda *args: [original(*args)])


def _pooling(original: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    from exportcompat.patches.toolkit.function_modes import Override

    def pick(index: Callable[..., Any], tensor: Any, places: Any) -> Any:
        is_cut = isinstance(places, tuple) and len(places) == 2 and isinstance(places[1], slice)
        lengths = places[1].stop if is_cut else None
        return _Sounds(tensor, lengths) if isinstance(lengths, torch.Tensor) else index(tensor, places)

    def stack(put: Callable[..., Any], tensors: Any, *args: Any, **kwargs: Any) -> Any:
        return tensors[0] if len(tensors) == 1 and not args and not kwargs else put(tensors, *args, **kwargs)

    def forward(*args: Any, **kwargs: Any) -> Any:
        with Override({torch.Tensor.__getitem__: pick, torch.stack: stack}):
            return original(*args, **kwargs)

    return forward


class _Sounds:
    """States of sounds of several lengths.

    Args:
        states: `(batch, length, channels)`.
        lengths: `(batch,)`, integers.
    """

    def __init__(self, states: Any, lengths: Any) -> None:
        import torch

        size = states.shape[1]
        places = torch.arange(size, device=states.device)
        # Upstream does not count what dilation takes away; a slice ends with the states, and counts from there below 0.
        ends = torch.where(lengths < 0, lengths + size, lengths).clamp(0, size)
        self._states, self._lengths = states, ends[:, None]
        self._is_sound = (places < self._lengths)[..., None]

    def mean(self, dim: int) -> Any:
        """Return the mean of each sound, `(batch, channels)`; `dim` is that of one sound."""
        return self._sum(self._states) / self._lengths

    def std(self, dim: int) -> Any:
        """Return the deviation of each sound, `(batch, channels)`, with Bessel's correction."""
        distances = self._states - self.mean(dim)[:, None]
        return (self._sum(distances * distances) / (self._lengths - 1)).sqrt()

    def _sum(self, states: Any) -> Any:
        return states.where(self._is_sound, 0.0).sum(1)


_FILES = {
    "wavlm": ("wavlm", "WavLM"),
    "wav2vec2": ("wav2vec2", "Wav2Vec2"),
    "data2vec": ("data2vec_audio", "Data2VecAudio"),
    "unispeech_sat": ("unispeech_sat", "UniSpeechSat"),
    "wav2vec2_conformer": ("wav2vec2_conformer", "Wav2Vec2Conformer"),
    "wav2vec2_bert": ("wav2vec2_bert", "Wav2Vec2Bert"),
}

SPECS = (
    PatchingSpec(
        id="xvector-lengths",
        targets=tuple(
            f"transformers.models.{folder}.modeling_{file}:{prefix}ForXVector.{method}"
            for folder, (file, prefix) in _FILES.items()
            for method in ("forward", "_get_tdnn_output_lengths")
        ),
        replacement=f"{__name__}:patch_lengths_or_forward",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="A mask of sounds makes a loop over the batch, in which each has its length: no graph, or of one batch.",
        upstream=(source("models/wavlm/modeling_wavlm.py", "v5.24.0"),),
        proofs=tuple(f"{folder}_voices" for folder in _FILES),
        defect=(r"enumerate\(tdnn_output_lengths\)",),
        kind="wrap",
    ),
)
