"""TimesFM takes the series of a batch one by one.

Symptom: an export that fails because torch inferred a static size for the batch of `past_values`.
Cause: `[series[-context:] for series in past_values]` in `forward`, and a loop in `_preprocess` that pads each. Before
5.13 `forward` asks too whether the least of all values is negative, of a tensor, before it asks whether that matters.
What is done: while it is traced, `forward` gets one series whose moments are those of all texts of the batch, a list of
`(length, batch)`, and `_preprocess` pads that in front by a length that is computed, and gives `(batch, context)`. The
least value is a number where nothing comes of it.
Can go: when upstream pads a batch together.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced


def patch_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Give `forward` a batch of series, `(batch, length)`, as one series of moments, `(length, batch)`."""
    signature = inspect.signature(original)

    def traced(self: Any, past_values: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, past_values, *args, **kwargs).arguments
        # A moving average is taken along the last axis, and doubles the series.
        is_batch = hasattr(past_values, "dim") and past_values.dim() == 2 and given.get("window_size") is None
        return original(self, [past_values.T] if is_batch else past_values, *args, **kwargs)

    return when_traced(original, traced)


def patch_forward_with_minimum(original: Callable[..., Any]) -> Callable[..., Any]:
    """Give `forward` a batch as one series, and a number for the least value, if it does not cut negative ones."""
    import torch

    from exportcompat.patches.toolkit.function_modes import Override

    signature, patched = inspect.signature(original), patch_forward(original)

    def minimum(func: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
        # Of one number for each series; others are asked for along an axis.
        is_least = values.dim() == 1 and not args and not kwargs
        return float("-inf") if is_least else func(values, *args, **kwargs)

    def traced(self: Any, past_values: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, past_values, *args, **kwargs).arguments
        if given.get("truncate_negative") or isinstance(past_values, (list, tuple)):
            return patched(self, past_values, *args, **kwargs)
        with Override({torch.min: minimum}):
            return patched(self, past_values, *args, **kwargs)

    return when_traced(original, traced)


def patch_preprocess(original: Callable[..., Any]) -> Callable[..., Any]:
    """Pad the moments of a batch, `(length, batch)`, in front."""
    signature = inspect.signature(original)

    def preprocess(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if inputs[0].dim() != 2:
            return original(self, inputs, *args, **kwargs)
        # Older releases want frequencies, and take no context.
        given = signature.bind(self, inputs, *args, **kwargs).arguments
        return _padded(inputs[0].T, given.get("freq"), given.get("context_len") or self.context_len, self.horizon_len)

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
    # The list that `forward` makes has one number for the one series that it has seen.
    kinds = freq if isinstance(freq, torch.Tensor) else torch.tensor(freq, device=series.device).expand(batch)
    return *found, kinds[:batch].to(torch.int32).reshape(-1, 1)


_FILES = {"timesfm": "TimesFm", "timesfm2_5": "TimesFm2_5"}
_UPSTREAM = tuple(source(f"models/{name}/modeling_{name}.py", "v5.24.0") for name in _FILES)


def _methods(name: str) -> tuple[str, ...]:
    return tuple(
        f"transformers.models.{file}.modeling_{file}:{kind}ModelForPrediction.{name}" for file, kind in _FILES.items()
    )


def _alone(name: str) -> dict[str, Any]:
    """Return what differs where TimesFM 2.5 is not there yet, or was not run."""
    return {"targets": _methods(name)[:1], "upstream": _UPSTREAM[:1], "proofs": ("timesfm",)}


_WITH_MINIMUM = f"{__name__}:patch_forward_with_minimum"
_SHARED = {"upstream": _UPSTREAM, "proofs": ("timesfm", "timesfm2_5"), "kind": "wrap"}

SPECS = (
    *variants(
        {
            "id": "timesfm-series",
            "targets": _methods("forward"),
            "replacement": f"{__name__}:patch_forward",
            "reason": "TimesFM goes through the series of a batch in a loop: the sample's batch is kept.",
            **_SHARED,
        },
        {
            "transformers>=4.52,<5": {"replacement": _WITH_MINIMUM, **_alone("forward")},
            "transformers>=5.4,<5.13": {"replacement": _WITH_MINIMUM, **_alone("forward")},
            "transformers>=5.13,<5.15": _alone("forward"),
            "transformers>=5.15": {},
        },
    ),
    *variants(
        {
            "id": "timesfm-padding",
            "targets": _methods("_preprocess"),
            "replacement": f"{__name__}:patch_preprocess",
            "reason": "TimesFM pads the series of a batch one by one, by an `if` on the length of each.",
            **_SHARED,
        },
        {
            "transformers>=4.52,<5": _alone("_preprocess"),
            "transformers>=5.4,<5.15": _alone("_preprocess"),
            "transformers>=5.15": {},
        },
    ),
)
