"""A sliding cache layer drops tokens by a Python counter, which a graph cannot do.

Symptom: the graph is right up to the window and wrong beyond it (Mistral, Gemma2, Gemma3), or it refuses another
past length than the sample's.
Cause: `DynamicSlidingWindowLayer` keeps the last `window - 1` tokens and counts the rest in an int. Traced, the crop
and the counter are those of the sample.
What is done: inside the scope a layer keeps its full past, and the mask alone applies the window, with and without
padding. The graph therefore takes and returns the full past. A cache that has dropped tokens already behaves as it
did; it cannot be traced (the pytree spec says so).
Can go: when transformers has a traceable sliding layer.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_LAYER = "transformers.cache_utils:DynamicSlidingWindowLayer"


def patch_sliding_window_layer(original: Callable[..., Any]) -> Callable[..., Any]:
    """Run `update` and `get_mask_sizes` as a layer without a window has them, while the past is full."""
    from transformers.cache_utils import DynamicLayer

    from exportcompat.patches.toolkit.sliding_layers import has_full_past

    from .dynamic_layer_empty import initialize

    def update(self: Any, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> Any:
        if not has_full_past(self):
            return original(self, key_states, value_states, *args, **kwargs)
        if self.keys is None:
            initialize(self, key_states, value_states)
        states = DynamicLayer.update(self, key_states, value_states, *args, **kwargs)
        self.cumulative_length += key_states.shape[-2]
        return states

    def get_mask_sizes(self: Any, *args: Any, **kwargs: Any) -> tuple[int, int]:
        method = DynamicLayer.get_mask_sizes if has_full_past(self) else original
        sizes: tuple[int, int] = method(self, *args, **kwargs)
        return sizes

    return update if original.__name__ == "update" else get_mask_sizes


SPECS = (
    PatchingSpec(
        id="sliding-layer-full-past",
        targets=(f"{_LAYER}.update", f"{_LAYER}.get_mask_sizes"),
        replacement=f"{__name__}:patch_sliding_window_layer",
        requires=("transformers>=4.56", "torch>=2.6"),
        reason="A sliding layer crops by a Python counter: the graph is wrong for every past beyond the window.",
        upstream=("https://github.com/huggingface/transformers/pull/49542",),
        proofs=("mistral_window", "gemma2_window"),
        defect=(r"self\.cumulative_length",),
        kind="wrap",
    ),
)
