"""A model counts its tokens from 0 although there is a past, unless it is told where they are.

Symptom: a graph of Gemma2 in 4.44 is wrong wherever the cache is filled; so is an eager call without
`cache_position`, which `generate` always passes. No client of an exported decoder does.
Cause: `cache_position` defaults to `arange(0, new)`, which makes the causal mask that of a prompt.
What is done: while it is traced, the default begins at the length of the cache.
Can go: with transformers 4.44.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def counting_from_past(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward` with a default of `cache_position` that begins behind the cache while it is traced."""
    import torch

    from ._tracing import is_traced

    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        past, ids = given.get("past_key_values"), given.get("input_ids")
        tokens: Any = given.get("inputs_embeds") if ids is None else ids
        if given.get("cache_position") is not None or past is None or not is_traced(tokens):
            return original(self, *args, **kwargs)
        begin = past.get_seq_length()
        given["cache_position"] = torch.arange(begin, begin + tokens.shape[1], device=tokens.device)
        return original(**given)

    return forward


SPECS = (
    PatchingSpec(
        id="cache-position-default",
        targets=("transformers.models.gemma2.modeling_gemma2:Gemma2Model.forward",),
        replacement=f"{__name__}:counting_from_past",
        requires=("transformers>=4.44,<4.45", "torch>=2.6"),
        reason="Tokens are counted from 0 although there is a past: wrong wherever the cache is filled.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.44.2/src/transformers/models/gemma2/modeling_gemma2.py",
        ),
        proofs=("gemma2_window",),
        kind="wrap",
    ),
)
