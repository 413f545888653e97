"""Mamba and Mamba2 refuse a cache without `cache_position`, and Jamba counts from 0 although there is a past.

Symptom: `ValueError: You have to specify the cache_position manually` (Mamba, Mamba2); a graph of Jamba is wrong
wherever the cache is filled. No client of an exported decoder passes positions to these models.
What is done: while it is traced, the default begins at the length of the cache; Mamba's layers have no use for the
number (see `mamba-continued-scan`).
Can go: with transformers 5.3.
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
        given = signature.bind(self, *args, **kwargs)
        values = given.arguments
        tokens = values.get("input_ids")
        tokens = values.get("inputs_embeds") if tokens is None else tokens
        past = values.get("cache_params", values.get("past_key_values"))
        if values.get("cache_position") is not None or past is None or not is_traced(tokens):
            return original(self, *args, **kwargs)
        begin = past.get_seq_length() if hasattr(past, "get_seq_length") else 0
        values["cache_position"] = torch.arange(begin, begin + tokens.shape[1], device=tokens.device)
        return original(*given.args, **given.kwargs)

    return forward


_MODELS = "transformers.models"


def _spec(model: str, name: str, requires: str) -> PatchingSpec:
    return PatchingSpec(
        id=f"{model}-cache-position",
        targets=(f"{_MODELS}.{model}.modeling_{model}:{name}.forward",),
        replacement=f"{__name__}:counting_from_past",
        requires=(requires, "torch>=2.6"),
        reason="A cache without `cache_position` is refused, or tokens are counted from 0 although there is a past.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/mamba/modeling_mamba.py",
        ),
        proofs=(model,),
        kind="wrap",
    )


SPECS = (
    _spec("mamba", "MambaModel", "transformers>=4.44,<5.4"),
    _spec("mamba2", "Mamba2Model", "transformers>=4.44,<5.4"),
    _spec("jamba", "JambaModel", "transformers>=4.44,<5.4"),
)
