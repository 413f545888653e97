"""A maximum over windows of a sequence keeps the sample's length.

Symptom: `tracing inferred a static shape of 15`, for a model with `nn.MaxPool1d` (CANINE); torch says no line.
Cause: torch's `max_pool1d` takes sizes as numbers, and reads them from the shape of what it is given.
What is done: while it is traced, a sequence is an image of one row, and `max_pool2d` knows sizes as symbols. A call
that wants the places of the maxima too is left as it is.
Can go: when torch's `max_pool1d` takes symbols.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import PatchingSpec


def patch_max_pool1d(original: Callable[..., Any]) -> Callable[..., Any]:
    """Take the maximum over windows of an image of one row."""

    def traced(
        input: Any,  # noqa: A002 (as torch calls it)
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        import torch

        if return_indices:
            return original(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        (size,), (step,), (around,), (apart,) = map(_one, (kernel_size, stride or kernel_size, padding, dilation))
        rows = input.unsqueeze(-2)
        found = torch.nn.functional.max_pool2d(rows, (1, size), (1, step), (0, around), (1, apart), ceil_mode)
        return found.squeeze(-2)

    return when_traced(original, traced)


def _one(value: Any) -> Any:
    """Return a tuple of one number, which stands for itself."""
    return (value,) if isinstance(value, int) else tuple(value)


SPECS = (
    PatchingSpec(
        id="torch-export-max-pool-1d",
        targets=("torch.nn.functional:max_pool1d",),
        replacement=f"{__name__}:patch_max_pool1d",
        requires=("torch>=2.13",),
        reason="torch's max_pool1d reads sizes as numbers: a graph for sequences of the sample's length.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/MaxPooling.cpp",),
        proofs=("canine",),
        kind="wrap",
    ),
)
