"""`MiniMaxCache` is as long as its first layer, which has no keys.

Symptom: a graph cannot be made with a past, or is wrong with one. Eager is wrong too, without a word, in a later call
of several tokens, or of one behind padding; with both it stops (`The size of tensor a must match the size of b`).
Cause: masks and positions ask the cache for the length of layer 0. In MiniMax-Text-01 that layer has a state and no
keys, so the length is 0; upstream looks for a layer with keys in caches only that know which of their layers have
states, and in a `MiniMaxCache` all are of the same class.
What is done: while it is traced, a layer without keys has the length of the first layer that has some.
Can go: when MiniMax-Text has a `DynamicCache` with layers for states.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_CACHE = "transformers.models.minimax.modeling_minimax:MiniMaxCache"


def patch_minimax_cache(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `get_seq_length` or `get_mask_sizes` ask a layer that has keys while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    signature = inspect.signature(original)

    def asked(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        keys, layer = _keys(self), given.arguments["layer_idx"] or 0
        if layer not in keys and any(map(is_traced, keys.values())):
            given.arguments["layer_idx"] = min(keys)
        return original(*given.args, **given.kwargs)

    return asked


def _keys(cache: Any) -> dict[int, Any]:
    """Return the keys of the layers that have some, by layer; what stands for none is None, or has less axes."""
    held = [layer.keys for layer in cache.layers] if hasattr(cache, "layers") else cache.key_cache
    return {index: keys for index, keys in enumerate(held) if getattr(keys, "ndim", 0) == 4}


SPECS = (
    PatchingSpec(
        id="minimax-cache-length",
        targets=(f"{_CACHE}.get_seq_length", f"{_CACHE}.get_mask_sizes"),
        replacement=f"{__name__}:patch_minimax_cache",
        requires=("transformers>=4.53", "torch>=2.6"),
        reason="The cache of MiniMax-Text counts the keys of a layer that has none: masks are too short, so wrong.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/minimax/modeling_minimax.py",
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/masking_utils.py",
        ),
        proofs=("minimax",),
        defect=(r"\blayer_idx\b",),
        kind="wrap",
    ),
)
