"""The types of tokens, which say what attends to what, are those of a whole text, and a call has those of its own.

Symptom: wrong numbers where images come in a later call, and for PaliGemma in every later call of several tokens.
Cause: Gemma3 (from 4.53 on) and PaliGemma (from 5.0 on) look types up by position, so a call with a past needs those
of the past too; `generate` passes them in the first call alone. PaliGemma takes a call for the first one if it has
`pixel_values`, which a graph always has. From 4.53 to 4.57 Gemma3 hands its cache back only if it is told `use_cache`.
What is done: while it is traced, types are taken for those of the tokens of the call, `(batch, sequence)`, and those of
the past are added, which are of no consequence: a token attends to its whole past anyway. In a later call without
images the types are those of a text. Gemma3 hands back the cache that it was given.
Can go: when upstream takes the types of the tokens of a call.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def token_type_factory(text: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a factory for models in which the type `text` is that of a text without images."""

    def factory(original: Callable[..., Any]) -> Callable[..., Any]:
        from exportcompat.patches.toolkit.tracing import is_traced

        signature = inspect.signature(original)

        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = signature.bind(self, *args, **kwargs)
            types = given.arguments.get("token_type_ids")
            if types is not None and is_traced(types):
                given.arguments["token_type_ids"] = _completed(types, given.arguments, text)
            return original(*given.args, **given.kwargs)

        return forward

    return factory


def _completed(types: Any, given: Any, text: int) -> Any:
    """Return the types of all tokens so far, `(batch, past + new)`; a later call without images has those of a text."""
    import torch

    from exportcompat.patches.toolkit.cache_names import cache_of

    pixels, cache = given.get("pixel_values"), cache_of(given)
    past = 0 if cache is None else cache.get_seq_length()
    images = 0 if pixels is None else pixels.shape[0]
    counts = torch.stack([torch.full((), count, dtype=torch.int64) for count in (images, past)]).to(types.device)
    types = torch.where((counts[0] > 0) | (counts[1] == 0), types, text)
    before = types.new_zeros(types.shape[0], past)
    return torch.cat([before, types], dim=1)


def patch_gemma3_forward_with_cache(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` hand the cache back, which it does only if it is told so."""
    signature = inspect.signature(original)
    completed = patch_gemma3_forward(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs)
        if given.arguments.get("use_cache") is None and given.arguments.get("past_key_values") is not None:
            given.arguments["use_cache"] = True
        return completed(*given.args, **given.kwargs)

    return forward


patch_gemma3_forward = token_type_factory(0)
patch_paligemma_forward = token_type_factory(1)

_SOURCE = "https://github.com/huggingface/transformers/blob/{}/src/transformers/models/{}"


def _variant(name: str, prefix: str, releases: str, proof: str, suffix: str = "") -> PatchingSpec:
    return PatchingSpec(
        id=f"{name}-token-types",
        targets=(f"transformers.models.{name}.modeling_{name}:{prefix}ForConditionalGeneration.forward",),
        replacement=f"{__name__}:patch_{name}_forward{suffix}",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="What attends to what is looked up in the types of all tokens so far, and a call has its own: wrong.",
        upstream=(_SOURCE.format("v5.23.0", f"{name}/modeling_{name}.py"),),
        proofs=(proof,),
        kind="wrap",
    )


SPECS = (
    _variant("gemma3", "Gemma3", ">=4.53,<5.0", "gemma3_image", "_with_cache"),
    _variant("gemma3", "Gemma3", ">=5.0", "gemma3_image"),
    _variant("paligemma", "PaliGemma", ">=5.0", "paligemma"),
)
