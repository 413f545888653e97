"""Longformer and LED pad a text to a multiple of their window by an `if` on its length.

Symptom: a file that is wrong or stops for other lengths: Longformer from a sample that is a multiple of the window, LED
from one that is none.
Cause: `if padding_len > 0` in `_pad_to_window_size`, and in LED where the padding is taken off again.
What is done: while it is traced, nothing is padded there, as `longformer-attention` takes any length. A token of
padding is seen by no other, so the states of a text are the same.
Can go: with `longformer-attention`.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_pad_to_window_size(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that pads by nothing."""
    from exportcompat.patches.toolkit.wrapping import when_traced

    signature = inspect.signature(original)

    def traced(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        # What is to be padded comes between the model and the token of padding, and goes back in this order.
        _, *given, _ = signature.bind(*args, **kwargs).arguments.values()
        return 0, *given

    return when_traced(original, traced)


SPECS = (
    PatchingSpec(
        id="longformer-padding",
        targets=(
            "transformers.models.longformer.modeling_longformer:LongformerModel._pad_to_window_size",
            "transformers.models.led.modeling_led:LEDEncoder._pad_to_window_size",
        ),
        replacement=f"{__name__}:patch_pad_to_window_size",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="Longformer and LED pad to a multiple of their window by an `if`: the sample's answer is kept.",
        upstream=(source("models/longformer/modeling_longformer.py", "v5.24.0"),),
        proofs=("longformer", "led_encoder"),
        defect=(r"if padding_len > 0",),
        kind="wrap",
    ),
)
