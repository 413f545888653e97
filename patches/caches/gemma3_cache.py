"""Gemma3 with images does not hand its cache back unless it is told to.

Symptom: the file has no `present...` outputs. Gemma3 with images of 4.52.
Cause: `outputs.past_key_values if use_cache else None`, where `use_cache` is an argument, and not what is configured.
What is done: a call that has a cache hands it back; one that says `use_cache=False` does not.
Can go: with transformers 4.52; 4.53 to 4.57 do the same, and have it mended in `attention.token_types`.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_gemma3_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` hand the cache back that it was given."""
    from exportcompat.patches.toolkit.tracing import is_traced

    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs)
        mask, cache = (given.arguments.get(name) for name in ("attention_mask", "past_key_values"))
        if given.arguments.get("use_cache") is None and cache is not None and mask is not None and is_traced(mask):
            given.arguments["use_cache"] = True
        return original(*given.args, **given.kwargs)

    return forward


SPECS = (
    PatchingSpec(
        id="gemma3-cache",
        targets=("transformers.models.gemma3.modeling_gemma3:Gemma3ForConditionalGeneration.forward",),
        replacement=f"{__name__}:patch_gemma3_forward",
        requires=("transformers>=4.52,<4.53", "torch>=2.6"),
        reason="The cache is handed back only to a caller who asks for it: a file without one.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.52.4/src/transformers/models/gemma3/modeling_gemma3.py",
        ),
        proofs=("gemma3_image",),
        kind="wrap",
    ),
)
