"""A question about lengths that makes no difference in a graph is answered from the sample.

Symptom: with `export(..., cache="window")`, an assumption such as `total_sequence > past_window + sequence`, although
the file is right for every length (`on_assumption="error"`: no file).
Cause: before `_ignore_causal_mask_sdpa` says that a traced mask is never left out, it cuts the mask of padding to the
length of the keys, if it is longer. Keys of a layer that holds its window are fewer than the tokens of the text.
What is done: while it is traced, it says no at once.
Can go: when upstream asks whether it is traced before it looks at lengths. From 5.0 to 5.19 it is told of models that
have layers with and without a window alone, as Gemma3 (run on 5.6.0, 5.14.1 and 5.18.0).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_ignore_causal_mask_sdpa(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_ignore_causal_mask_sdpa` say no without a question while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    def _ignore_causal_mask_sdpa(padding_mask: Any, *args: Any, **kwargs: Any) -> bool:
        # Without a mask of padding no length is asked for.
        if padding_mask is not None and is_traced(padding_mask):
            return False
        return bool(original(padding_mask, *args, **kwargs))

    return _ignore_causal_mask_sdpa


def _variant(releases: str, proof: str = "mistral_window_cache") -> PatchingSpec:
    return PatchingSpec(
        id="mask-shortcut-lengths",
        targets=("transformers.masking_utils:_ignore_causal_mask_sdpa",),
        replacement=f"{__name__}:patch_ignore_causal_mask_sdpa",
        requires=(f"transformers{releases}", "torch>=2.11"),
        reason="A file whose layers hold a window is said to be right for some lengths only, and is right for all.",
        upstream=("https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/masking_utils.py",),
        proofs=(proof,),
        defect=(r"padding_mask\.shape\[-1\] > kv_length",),
        kind="wrap",
    )


SPECS = (_variant(">=4.56,<5.0"), _variant(">=5.0,<5.20", "gemma3_cache"), _variant(">=5.20"))
