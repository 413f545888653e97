"""A layer of LFM2 with a short convolution begins from nothing or takes one token.

Symptom: one graph is never right for both the prompt and the tokens behind it; to 4.57 a trace with padding fails,
because the layer gets the mask of attention, of four axes.
Cause: `if past_key_values.has_previous_state: one token, else: a prompt`; to 4.57 an if on `cache_position[0]`.
What is done: while it is traced, a layer continues from its state for any number of tokens; zeros are an empty cache.
The mask is that of the new tokens, and always used; upstream uses it for more than one sequence only.
Can go: with transformers 5.14; from 5.15 on upstream continues from a state for any number of tokens.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def continuing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `slow_forward` of a layer with a short convolution that continues from its state while it is traced."""
    from exportcompat.patches.toolkit.cache_names import cache_of
    from exportcompat.patches.toolkit.tracing import is_traced

    from ._states import convolved, unpadded

    signature = inspect.signature(original)

    def slow_forward(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_traced(x):
            return original(self, x, *args, **kwargs)
        given = signature.bind(self, x, *args, **kwargs).arguments
        cache = cache_of(given)
        enter, leave, values = self.in_proj(unpadded(x, _columns(given.get("attention_mask")))).mT.chunk(3, dim=-2)
        outputs, state = convolved(self.conv, enter * values, _state(cache, self.layer_idx))
        _keep(cache, self.layer_idx, state)
        return self.out_proj((leave * outputs).mT.contiguous())

    return slow_forward


def _columns(mask: Any) -> Any:
    """Return the mask of the tokens, `(batch, tokens)`; that of attention tells it in the row of the last token."""
    if mask is None or mask.ndim == 2:
        return mask
    row = mask[:, 0, -1]
    return row >= 0 if row.is_floating_point() else row


def _state(cache: Any, index: int) -> Any:
    from exportcompat.patches.toolkit.layer_states import layer_states

    if cache is None:
        return None
    return cache.conv_cache[index] if _is_own(cache) else dict(layer_states(cache.layers[index])).get("conv_state")


def _keep(cache: Any, index: int, state: Any) -> None:
    from exportcompat.patches.toolkit.layer_states import set_layer_state

    if cache is None:
        return
    if _is_own(cache):
        cache.conv_cache[index] = state
        return
    layer = cache.layers[index]
    set_layer_state(layer, "conv_state", state)
    layer.has_previous_state = {0: True} if isinstance(layer.has_previous_state, dict) else True


def _is_own(cache: Any) -> bool:
    """Say whether a cache is of LFM2's own class, as it is to 5.4."""
    return hasattr(cache, "conv_cache")


def _spec(releases: str, models: dict[str, str], *proofs: str) -> PatchingSpec:
    return PatchingSpec(
        id="short-convolution",
        targets=tuple(
            f"transformers.models.{model}.modeling_{model}:{prefix}ShortConv.slow_forward"
            for model, prefix in models.items()
        ),
        replacement=f"{__name__}:continuing",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="A layer with a short convolution ignores its state or takes one token, by ifs: no graph, or wrong.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.14.1/src/transformers/models/lfm2/modeling_lfm2.py",
        ),
        proofs=proofs,
        defect=(r"conv_state",),
        kind="wrap",
    )


_DENSE = {"lfm2": "Lfm2"}

SPECS = (
    _spec(">=4.54,<5.0", _DENSE, "lfm2_unpadded"),
    _spec(">=5.0,<5.15", {**_DENSE, "lfm2_moe": "Lfm2Moe"}, "lfm2"),
)
