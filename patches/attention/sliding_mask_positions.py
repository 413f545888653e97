"""The mask of a sliding window is cut for a cache of fixed length, and misplaced for one that grows.

Symptom: beyond the window the graph stops in ONNX Runtime (mask and keys have different lengths); in 4.44 it gives
wrong numbers, as eager mode with a `DynamicCache` does. Gemma2, Gemma3, Cohere2 to 4.52.
Cause: each sliding layer makes its mask from the causal one by row numbers, as if the first query were token 0, and
cuts it by Python sizes to the length of a `HybridCache`.
What is done: while it is traced, the window is put into the mask by the positions of queries and keys, and nothing is
cut. The graph takes and returns the full past.
Can go: with transformers 4.52; from 4.53 on masks are made in one place, from positions.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec, Unchanged


def patch_sliding_decoder_layer(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Make `forward` of a decoder layer mask by positions while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    signature = inspect.signature(original)
    if "cache_position" not in signature.parameters:
        return Unchanged("it takes no cache positions: an encoder has a variable of this name too")

    def forward(self: Any, hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, hidden_states, *args, **kwargs)
        mask = bound.arguments.get("attention_mask")
        if not is_traced(hidden_states) or not self.is_sliding or mask is None or mask.dim() != 4:
            return original(self, hidden_states, *args, **kwargs)
        bound.arguments["attention_mask"] = _windowed(mask, bound.arguments["cache_position"], self.sliding_window)
        # A layer that is not sliding leaves its mask alone.
        self.is_sliding = False
        try:
            return original(*bound.args, **bound.kwargs)
        finally:
            self.is_sliding = True

    return forward


def _windowed(mask: Any, positions: Any, window: int) -> Any:
    """Return `mask`, `(batch, 1, queries, keys)`, with what is `window` tokens or more behind a query masked, too."""
    import torch

    keys = torch.arange(mask.shape[-1], device=mask.device)
    is_far = positions[:, None] - keys[None, :] >= window
    nothing = torch.finfo(mask.dtype).min if mask.is_floating_point() else False
    return torch.where(is_far, nothing, mask)


SPECS = (
    PatchingSpec(
        id="sliding-mask-positions",
        targets=("methods_using(transformers:sliding_window_mask)",),
        replacement=f"{__name__}:patch_sliding_decoder_layer",
        requires=("transformers>=4.44,<4.53", "torch>=2.6"),
        reason="The mask of a window is cut to the length of another cache: no result, or wrong, beyond the window.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.52.4/src/transformers/models/gemma2/modeling_gemma2.py",
        ),
        proofs=("gemma2_window",),
        defect=(r"\bself\.is_sliding\b",),
        kind="wrap",
    ),
)
