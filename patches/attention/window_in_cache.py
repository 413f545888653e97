"""The window of attention is in the cache alone, and a graph has the full past.

Symptom: beyond the window the graph sees more tokens than eager mode does: other numbers, and no error. Llama and every
other model whose configuration has a `sliding_window` that the model does not ask for; from 5.2 on Moshi and Kyutai's
speech to text, which have a window of 3,000 tokens by default.
Cause: these models make one causal mask, without a window. Their layers forget what is older than `window - 1` tokens
because `DynamicCache` makes sliding layers where the configuration has a window, from 4.56 on. A layer in a graph
keeps its past (`sliding-layer-full-past`).
What is done: inside the scope, a causal mask for a cache whose layers all slide hides what they would have dropped
before the call: all but the last `window - 1` tokens of the past, for every query of the call alike. It does so in
eager mode too, where the layers have their full past as well.
Can go: when upstream puts the window into these masks.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants


def patch_create_causal_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `create_causal_mask` hide what a layer with its full past would have dropped."""
    from exportcompat.patches.toolkit.cache_names import cache_of
    from exportcompat.patches.toolkit.sliding_layers import full_window
    from exportcompat.patches.toolkit.tracing import is_traced

    signature = inspect.signature(original)

    # Callers name the cache and the embeddings as their release does, so arguments are passed on as they come.
    @functools.wraps(original)
    def create_causal_mask(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        cache = cache_of(given.arguments)
        window = full_window(cache)
        if window is None:
            return original(*args, **kwargs)
        embeddings: Any = given.arguments.get("inputs_embeds", given.arguments.get("input_embeds"))
        if is_traced(embeddings):
            return _without_dropped(original(*args, **kwargs), embeddings.shape[1], window)
        # Eager mode inside a scope has the full past too, and may do without a mask.
        seen = cache.get_seq_length() - (window - 1)
        if seen > 0:
            given.arguments["and_mask_function"] = _with_recent(given.arguments.get("and_mask_function"), seen)
        return original(*given.args, **given.kwargs)

    return create_causal_mask


def patch_renamed_create_causal_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same where some models still give the embeddings by a name that is not that of an argument any more."""
    patched = patch_create_causal_mask(original)

    @functools.wraps(original)
    def create_causal_mask(*args: Any, **kwargs: Any) -> Any:
        if "input_embeds" in kwargs:
            kwargs["inputs_embeds"] = kwargs.pop("input_embeds")
        return patched(*args, **kwargs)

    return create_causal_mask


def _with_recent(function: Callable[..., Any] | None, first: int) -> Callable[..., Any]:
    """Return a mask function that allows what another one does, from the key `first` on."""

    def is_recent(batch: Any, head: Any, query: Any, key: Any) -> Any:
        allowed = key >= first
        return allowed if function is None else allowed & function(batch, head, query, key)

    return is_recent


def _without_dropped(mask: Any, new: Any, window: int) -> Any:
    """Return `mask`, `(batch, 1, new, past + new)`, with all but the last `window - 1` keys of the past hidden."""
    import torch

    if mask is None or mask.dim() != 4:
        return mask
    keys = mask.shape[-1]
    is_dropped = torch.arange(keys, device=mask.device) < keys - new - (window - 1)
    return torch.where(is_dropped, torch.finfo(mask.dtype).min if mask.is_floating_point() else False, mask)


SPECS = variants(
    {
        "id": "window-in-cache",
        "targets": ("imported(transformers.masking_utils:create_causal_mask)",),
        "replacement": f"{__name__}:patch_create_causal_mask",
        "reason": "The window of Moshi is in its cache and not in its mask: wrong beyond it in a graph.",
        "proofs": ("olmoe_window",),
        "kind": "wrap",
    },
    {
        "transformers>=4.56,<5.2": {
            "upstream": (source("models/llama/modeling_llama.py", "v4.57.6"),),
            "proofs": ("llama_window",),
        },
        # Nemotron-H and OLMo hybrid still call the embeddings as upstream did before 5.2.
        "transformers>=5.2,<5.9": {
            "replacement": f"{__name__}:patch_renamed_create_causal_mask",
            "upstream": (
                source("models/moshi/modeling_moshi.py", "v5.6.0"),
                source("models/nemotron_h/modeling_nemotron_h.py", "v5.6.0"),
            ),
            "proofs": ("olmoe_window", "nemotron_h"),
        },
        "transformers>=5.9": {"upstream": (source("models/moshi/modeling_moshi.py", "v5.24.0"),)},
    },
)
