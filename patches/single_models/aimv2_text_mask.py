"""AIMv2's texts see what comes behind them, unless one of the batch is padded.

Symptom: AIMv2 as a whole: a file whose states of texts are others than eager's, for every call without padding.
Cause: where nothing is padded, `create_causal_mask` makes no mask for torch's attention, and leaves it to `is_causal`;
and AIMv2's attention, which its images share, says `is_causal=False`. So a token sees all others. A batch with padding
has a mask, and is causal. A graph has a mask in every call.
What is done: while it is traced, the mask hides nothing if nothing is padded: the numbers are eager's. The attention of
plain Python (`attn_implementation="eager"`) has a mask always, and is left alone.
Can go: when upstream says `is_causal` for texts.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced


def patch_create_causal_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a mask of truth values that hides nothing where nothing is padded."""
    import torch

    def traced(*args: Any, attention_mask: Any = None, **kwargs: Any) -> Any:
        made = original(*args, attention_mask=attention_mask, **kwargs)
        if made is None or made.dtype != torch.bool:
            return made
        return torch.ones_like(made) if attention_mask is None else made | attention_mask.bool().all()

    return when_traced(original, traced)


SPECS = variants(
    {
        "id": "aimv2-text-mask",
        "targets": ("transformers.models.aimv2.modeling_aimv2:create_causal_mask",),
        "replacement": f"{__name__}:patch_create_causal_mask",
        "reason": "AIMv2's texts are causal only where one of the batch is padded, and those of a graph always.",
        "upstream": (source("models/aimv2/modeling_aimv2.py", "v5.24.0"),),
        "proofs": ("aimv2",),
        "kind": "wrap",
    },
    {"transformers>=4.57,<5": {}, "transformers>=5.24": {}},
)
