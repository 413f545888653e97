"""CPM-Ant makes its mask from a list of Python that is as long as the sample.

Symptom: `tracing inferred a static shape of 16 for dimension inputs['input_ids'].shape[1]`, for whole texts.
Cause: `torch.tensor(list(range(seqlen - self.prompt_length))[::-1])` in `_prepare_attention_mask`.
What is done: while it is traced, the places are a tensor from the beginning. The mask is the same. `export` refuses
calls with a cache: `generate` hands over the whole text each time.
Can go: when upstream counts with tensors.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_prepare_attention_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_prepare_attention_mask` count with tensors while it is traced."""
    import torch

    from exportcompat.patches.toolkit.wrapping import when_traced

    def traced(self: Any, input_ids: Any, span: Any, context: Any, length: Any) -> Any:
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        seen = context.bool()[:, None, :] | (places <= places[:, None])
        seen = seen & (span[:, None, :] == span[:, :, None])
        # The prompt is in front, and padding between it and the text.
        is_real = (places < self.prompt_length) | (places.flip(0) < length[:, None])
        return seen & is_real[:, None, :] & is_real[:, :, None]

    return when_traced(original, traced)


SPECS = (
    PatchingSpec(
        id="cpmant-mask",
        targets=("transformers.models.cpmant.modeling_cpmant:CpmAntModel._prepare_attention_mask",),
        replacement=f"{__name__}:patch_prepare_attention_mask",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="CPM-Ant makes its mask from a list that is as long as the sample: a graph for one length.",
        upstream=(source("models/cpmant/modeling_cpmant.py", "v5.24.0"),),
        proofs=("cpmant",),
        defect=(r"list\(range\(",),
        kind="wrap",
    ),
)
