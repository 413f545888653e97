"""The window of attention is in the cache alone, and a model makes its mask itself, for all tokens of the text.

Symptom: beyond the window the graph sees tokens that eager mode has dropped: other numbers, and no error. OLMoE,
StableLM and every other model whose configuration has a `sliding_window` that the model does not ask for.
Cause: from 4.56 on `DynamicCache` makes sliding layers where the configuration has a window. `_update_causal_mask`
of these models knows nothing of a window, and a layer in a graph keeps its past (`sliding-layer-full-past`). Eager
mode itself gives the columns of the first tokens to the keys of the last ones: calls of one token without padding are
right, others are not; and with a window in the mask too (Moshi, Kyutai's speech to text, PhiMoE, Qwen2-MoE) none is.
What is done: inside the scope a mask for a cache whose layers all slide hides what they would have dropped before the
call: all but the last `window - 1` tokens of the past, as `create_causal_mask` does it for other models. It does so in
eager mode too, where the layers have their full past as well. Where layers forget in a graph (`cache="window"`), the
mask has the columns of the keys that are left.
Can go: with transformers 5.2, where these models have their masks made by `create_causal_mask`.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.registry import Unchanged


def patch_update_causal_mask(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Make `_update_causal_mask` hide what a layer with its full past would have dropped."""
    from exportcompat.patches.toolkit.cache_names import cache_of

    if original.__name__ != "_update_causal_mask":
        return Unchanged("it makes no mask")

    signature = inspect.signature(original)

    @functools.wraps(original)
    def _update_causal_mask(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        mask = original(*args, **kwargs)
        # Flash attention is told its window by the layer, and does without a mask where nothing is padded.
        if getattr(getattr(args[0], "config", None), "_attn_implementation", None) == "flash_attention_2":
            return mask
        return _for_keys(mask, cache_of(given), given["input_tensor"])

    return _update_causal_mask


def _for_keys(mask: Any, cache: Any, states: Any) -> Any:
    """Return a mask for the keys that a cache has, `(batch, 1, new, keys)`; others than those of numbers stay."""
    import torch

    from exportcompat.patches.toolkit.sliding_layers import full_window

    is_other = not isinstance(mask, torch.Tensor) or mask.dim() != 4 or not mask.is_floating_point()
    if mask is not None and is_other:
        return mask
    new, held = states.shape[1], _held(cache)
    if held is not None:
        # The columns are in the order of the text, and a slice by symbols has a length that nobody knows.
        return mask if mask is None else mask.narrow(-1, cache.get_seq_length() - held, held + new)
    window = full_window(cache)
    return mask if window is None else _without_dropped(mask, states, cache.get_seq_length(), window)


def _held(cache: Any) -> Any:
    """Return how many tokens the layers of a cache hold that forget in a graph; None where they do not forget."""
    layers: Any = getattr(cache, "layers", ())
    forget = bool(layers) and all(getattr(layer, "forgets", False) for layer in layers)
    return layers[0].keys.shape[-2] if forget else None


def _without_dropped(mask: Any, states: Any, past: Any, window: int) -> Any:
    """Return `mask` with all but the last `window - 1` keys of the past hidden."""
    import torch

    from exportcompat.patches.toolkit.tracing import is_traced

    if not is_traced(states) and past < window:
        return mask
    if mask is None:
        # Attention by sdpa does without one for a single token behind a text without padding.
        mask = states.new_zeros(1, 1, states.shape[1], past + states.shape[1])
    is_dropped = torch.arange(mask.shape[-1], device=mask.device) < past - (window - 1)
    return torch.where(is_dropped, torch.finfo(mask.dtype).min, mask)


SPECS = variants(
    {
        "id": "window-in-own-mask",
        # The names of their local variables are what the copies of this method have in common.
        "targets": (
            "methods_using(transformers:using_static_cache)",
            "methods_using(transformers:using_compilable_cache)",
        ),
        "replacement": f"{__name__}:patch_update_causal_mask",
        "reason": "Masks that a model makes itself lack the window that its cache has: wrong beyond it in a graph.",
        "kind": "wrap",
    },
    {
        "transformers>=4.56,<5.0": {
            "upstream": (source("models/olmoe/modeling_olmoe.py", "v4.57.6"),),
            "proofs": ("stablelm_window", "olmoe_window"),
        },
        "transformers>=5.0,<5.2": {
            "upstream": (source("models/stablelm/modeling_stablelm.py", "v5.1.0"),),
            "proofs": ("stablelm_window",),
        },
    },
)
