"""T5Gemma makes a mask for its encoder's states from those of the call, and a graph is given those that are new alone.

Symptom: `The size of tensor a (s44 + Max(0, s31 - Min(s31, s44))) must match the size of tensor b` in the
cross-attention of T5Gemma before 5.0.
Cause: `create_causal_mask` has the states of the encoder for `input_embeds`, and takes their length for that of the
keys. In a graph those in the cache come in front of them.
What is done: while it is traced, the mask that the model is given says how many keys there are. The masks over the
text, which have a cache, are as before.
Can go: with transformers 4.x; from 5.0 on the mask is a bidirectional one, as long as what the model is given.
"""

import functools
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_create_causal_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `create_causal_mask` take the number of an encoder's states from their mask where it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    # The arguments are handed over by name, as its callers do it.
    @functools.wraps(original)
    def create_causal_mask(*args: Any, **kwargs: Any) -> Any:
        states: Any = kwargs.get("input_embeds")
        mask: Any = kwargs.get("attention_mask")
        has_cache = kwargs.get("past_key_values") is not None
        if not has_cache and getattr(mask, "ndim", 0) == 2 and is_traced(states):
            # Of the states, their length, type and device are asked for alone.
            kwargs["input_embeds"] = states.new_zeros(*mask.shape, 1)
        return original(*args, **kwargs)

    return create_causal_mask


SPECS = (
    PatchingSpec(
        id="t5gemma-cross-mask",
        targets=("transformers.models.t5gemma.modeling_t5gemma:create_causal_mask",),
        replacement=f"{__name__}:patch_create_causal_mask",
        requires=("transformers>=4.57,<5.0", "torch>=2.6"),
        reason="A mask of an encoder's states is as long as those of the call: no graph of T5Gemma with a cache.",
        upstream=(source("models/t5gemma/modeling_t5gemma.py", "v4.57.6"),),
        proofs=("t5gemma_decoder",),
        kind="wrap",
    ),
)
