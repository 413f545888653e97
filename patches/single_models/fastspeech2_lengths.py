"""FastSpeech2 repeats each state of a text as often as it lasts, row by row.

Symptom: FastSpeech2Conformer, with and without its vocoder: `Could not guard on data-dependent expression Eq(u0, 1)`.
Cause: `length_regulator` asks whether anything lasts at all, and goes through the batch in a loop, whose rows are as
long as the data say.
What is done: while it is traced, each moment of a spectrogram picks its state: those that have ended before it are
counted. All rows are as long as the longest, with zeros behind their own end, as upstream has them.
Can go: when upstream does so without a loop.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced


def patch_length_regulator(original: Callable[..., Any]) -> Callable[..., Any]:
    """Repeat the states of all rows together, `(batch, states, channels)` to `(batch, moments, channels)`."""

    def traced(encoded_embeddings: Any, duration_labels: Any, speaking_speed: float = 1.0) -> Any:
        import torch

        lasting = duration_labels
        if speaking_speed != 1.0:
            lasting = torch.round(lasting.float() * speaking_speed).long()
        # Where nothing lasts, each state does once; upstream writes that to what it was given, which is a result too.
        lasting.copy_(torch.where(lasting.sum() == 0, 1, lasting))
        return _repeated(encoded_embeddings.float(), lasting)

    return when_traced(original, traced)


def _repeated(states: Any, lasting: Any) -> Any:
    """Return each state as often as it lasts; rows that are shorter end in zeros."""
    import torch

    ends = lasting.long().cumsum(1)
    length = torch.ops.aten._local_scalar_dense(ends[:, -1].max())
    torch._check(length >= 1)
    moments = torch.arange(length, device=states.device)
    # One place more, for what ends with the longest row.
    ended = ends.new_zeros(ends.shape[0], length + 1).scatter_add(1, ends, torch.ones_like(ends)).cumsum(1)[:, :length]
    index = ended.clamp(max=states.shape[1] - 1)[..., None].expand(-1, -1, states.shape[2])
    return torch.where((moments < ends[:, -1:])[..., None], states.gather(1, index), 0.0)


_PATH = "models/fastspeech2_conformer/modeling_fastspeech2_conformer.py"

SPECS = variants(
    {
        "id": "fastspeech2-lengths",
        "targets": ("transformers.models.fastspeech2_conformer.modeling_fastspeech2_conformer:length_regulator",),
        "replacement": f"{__name__}:patch_length_regulator",
        "reason": "FastSpeech2 repeats the states of a batch in a loop, as often as the data say: no graph.",
        "upstream": (source(_PATH, "v5.24.0"),),
        "proofs": ("fastspeech2_conformer",),
        "kind": "wrap",
    },
    {"transformers>=4.44": {}},
)
