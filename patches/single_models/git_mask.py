"""GIT widens the mask for its images when the cache is filled, and the graph does so when it is empty, too.

Symptom: off by 1.5 to 3.7 in calls with left padding, or none, as the sample had no cache or a filled one.
Cause: `elif cache is not None and cache_length > 0`: the answer of the sample stays in the graph.
What is done: while it is traced, the mask gets the columns of the images in front where the cache is filled; where it
is empty, it gets them behind, where nothing reads them. Which of them it is, is computed. Images together with a cache
are refused: a call with them has more columns than one without.
Can go: when torch exports an `if` on sizes as one graph.

To transformers 4.57 a call with a cache is refused while it is traced, with images or without: the first call hides
padding and what comes later, and the calls behind a cache hide nothing.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import NoCacheError, Unchanged

_QUESTION = "_length > 0"

_REFUSAL = (
    "spec 'git-mask-length': GIT puts the features of images before the text in the first call, and nothing in the "
    "later ones, and one graph has one of the two"
)
_REMEDY = "leave pixel_values out, for texts alone"

_OLD_REFUSAL = (
    "spec 'git-mask-length': to transformers 4.57 GIT hides padding in the first call and nothing in the later ones, "
    "and one graph has one of the two"
)
_OLD_REMEDY = f"use transformers 5.3 or later, and {_REMEDY}"


def patch_git_forward_to_refuse(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `GitModel.forward` refuse a cache while it is traced."""
    signature = inspect.signature(original)

    def traced(*args: Any, **kwargs: Any) -> Any:
        from exportcompat.patches.toolkit.cache_names import cache_of

        if cache_of(signature.bind(*args, **kwargs).arguments) is not None:
            raise NoCacheError(_OLD_REFUSAL, _OLD_REMEDY)
        return original(*args, **kwargs)

    return when_traced(original, traced)


def patch_git_forward(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Return `GitModel.forward`, made to widen the mask by a length that is computed."""
    if "extended_attention_mask" not in inspect.unwrap(original).__code__.co_varnames:
        return Unchanged("this release builds the mask otherwise, and does not ask")

    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        from exportcompat.patches.toolkit.cache_names import cache_of
        from exportcompat.patches.toolkit.decisions import mended

        given = signature.bind(self, *args, **kwargs).arguments
        cache, mask = cache_of(given), given.get("attention_mask")
        length = 0 if cache is None else cache.get_seq_length()
        if not _is_asked(length, mask):
            return original(self, *args, **kwargs)
        if given.get("pixel_values") is not None:
            raise NoCacheError(_REFUSAL, _REMEDY)
        attention = self.encoder.layer[0].attention.self
        tokens, attention.image_patch_tokens = attention.image_patch_tokens, 0
        others = {name: value for name, value in given.items() if name not in ("self", "kwargs", "attention_mask")}
        try:
            with mended(_QUESTION):
                return original(
                    self, attention_mask=_widened(mask, tokens, length), **others, **given.get("kwargs", {})
                )
        finally:
            attention.image_patch_tokens = tokens

    return forward


def _is_asked(length: Any, mask: Any) -> bool:
    import torch

    return isinstance(length, torch.SymInt) and mask is not None and mask.dim() == 2


def _widened(mask: Any, tokens: int, length: Any) -> Any:
    """Return a `(batch, total + tokens)` mask; `length` is that of the cache."""
    import torch

    ones = mask.new_ones((mask.shape[0], tokens))
    # torch takes a size for 1 or more and would answer by itself; a tensor is compared in the file.
    is_filled = torch.full((), length, dtype=torch.int64) > 0
    return torch.where(is_filled, torch.cat([ones, mask], dim=-1), torch.cat([mask, ones], dim=-1))


SPECS = variants(
    {
        "id": "git-mask-length",
        "targets": ("transformers.models.git.modeling_git:GitModel.forward",),
        "upstream": (source("models/git/modeling_git.py", "v5.24.0"), source("models/git/modeling_git.py", "v4.57.6")),
        "kind": "wrap",
    },
    {
        "transformers>=5.18": {
            "replacement": f"{__name__}:patch_git_forward",
            "reason": "The mask is widened for images whether the cache is empty or not: wrong numbers with padding.",
            "proofs": ("git",),
        },
        "transformers<5.0": {
            "replacement": f"{__name__}:patch_git_forward_to_refuse",
            "reason": "A call behind a cache has another mask than the first one, by an if: wrong numbers in one.",
        },
    },
)
