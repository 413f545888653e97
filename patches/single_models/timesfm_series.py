"""TimesFM takes the series of a batch one by one.

Symptom: an export that fails because torch inferred a static size for the batch of `past_values`.
Cause: `[series[-context:] for series in past_values]` in `forward`, and a loop in `_preprocess` that pads each.
What is done: while it is traced, `forward` gets one series whose moments are those of all texts of the batch, a list of
`(length, batch)`, and `_preprocess` pads that in front by a length that is computed, and gives `(batch, context)`.
Can go: when upstream pads a batch together.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import PatchingSpec


def patch_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Give `forward` a batch of series, `(batch, length)`, as one series of moments, `(length, batch)`."""

    def traced(self: Any, past_values: Any, *args: Any, **kwargs: Any) -> Any:
        is_batch = hasattr(past_values, "dim") and past_values.dim() == 2
        return original(self, [past_values.T] if is_batch else past_values, *args, **kwargs)

    return when_traced(original, traced)


def patch_preprocess(original: Callable[..., Any]) -> Callable[..., Any]:
    """Pad the moments of a batch, `(length, batch)`, in front."""

    def preprocess(self: Any, inputs: Any, freq: Any = None, context_len: int | None = None) -> Any:
        if inputs[0].dim() != 2:
            return original(self, inputs, freq, context_len)
        return _padded(inputs[0].T, freq, context_len or self.context_len, self.horizon_len)

    return preprocess


def _padded(series: Any, freq: Any, context: int, horizon: int) -> tuple[Any, ...]:
    """Return series with zeros in front, `(batch, context)`, what of them and the horizon is padding, and frequencies.

    As much is put in front as there may be at most, and the last moments are kept: no length is asked for.
    """
    import torch

    batch, length = series.shape
    values = torch.cat([series.new_zeros(batch, context), series], 1)[:, -context:]
    is_padding = torch.cat([series.new_ones(batch, context), series.new_zeros(batch, length + horizon)], 1)
    found = values, is_padding[:, -(context + horizon) :]
    if freq is None:
        return found
    # A list has one number for the one series that `forward` has seen.
    kinds = freq if isinstance(freq, torch.Tensor) else torch.tensor(freq[:1], device=series.device).expand(batch)
    return *found, kinds[:batch].to(torch.int32).reshape(-1, 1)


_SHARED: dict[str, Any] = {
    "upstream": (
        "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/timesfm/modeling_timesfm.py",
    ),
    "proofs": ("timesfm", "timesfm2_5"),
    "kind": "wrap",
}

SPECS = (
    PatchingSpec(
        id="timesfm-series",
        targets=(
            "transformers.models.timesfm.modeling_timesfm:TimesFmModelForPrediction.forward",
            "transformers.models.timesfm2_5.modeling_timesfm2_5:TimesFm2_5ModelForPrediction.forward",
        ),
        replacement=f"{__name__}:patch_forward",
        requires=("transformers>=5.24", "torch>=2.6"),
        reason="TimesFM goes through the series of a batch in a loop: the sample's batch is kept.",
        **_SHARED,
    ),
    PatchingSpec(
        id="timesfm-padding",
        targets=(
            "transformers.models.timesfm.modeling_timesfm:TimesFmModelForPrediction._preprocess",
            "transformers.models.timesfm2_5.modeling_timesfm2_5:TimesFm2_5ModelForPrediction._preprocess",
        ),
        replacement=f"{__name__}:patch_preprocess",
        requires=("transformers>=5.24", "torch>=2.6"),
        reason="TimesFM pads the series of a batch one by one, by an `if` on the length of each.",
        **_SHARED,
    ),
)
