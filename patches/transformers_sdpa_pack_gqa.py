"""Grouped-query attention takes another path for a query of one token, and the graph keeps the sample's path.

Symptom: exported with a sample of one new token, the graph exports without a word and is wrong, or stops in ONNX
Runtime, for every longer query and every other batch.
Cause: `sdpa_attention_forward` asks `q_length == 1` to fold the groups into the query (`pack_gqa`). For a dynamic
axis whose sample value is 1 the answer is yes, and torch then takes the axis for the constant 1.
What is done: while it is traced, `use_gqa_in_sdpa` says yes, so the question is never asked; `enable_gqa` gives the
same result for every length.
Can go: when the question is not asked while exporting.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def always_while_traced(original: Callable[..., bool]) -> Callable[..., bool]:
    """Return `use_gqa_in_sdpa` made to say yes while it is traced."""
    from ._tracing import is_traced

    def use_gqa_in_sdpa(attention_mask: Any, key: Any, value: Any) -> bool:
        return is_traced(key) or original(attention_mask, key, value)

    return use_gqa_in_sdpa


SPECS = (
    PatchingSpec(
        id="sdpa-pack-gqa",
        targets=("transformers.integrations.sdpa_attention:use_gqa_in_sdpa",),
        replacement=f"{__name__}:always_while_traced",
        requires=("transformers>=5.23", "torch>=2.6"),
        reason="A sample of one new token makes the query length and the batch constants of the graph: wrong.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/integrations/sdpa_attention.py",
        ),
        proofs=("llama:1,5,1",),
        kind="wrap",
    ),
)
