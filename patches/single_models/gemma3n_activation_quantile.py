"""Gemma 3n cuts off activations at a quantile of the normal distribution, which ONNX cannot compute.

Symptom: `No ONNX function found for prims.erf_inv`; to torch's own tracing a fake tensor among the constants.
Cause: the quantile of a number of the configuration is computed by `torch.distributions`, each time anew.
What is done: while it is traced, the quantile is computed by Python's `statistics`, and is a number in the graph.
Can go: when ONNX has an operator for `erfinv`, or upstream keeps the quantile.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def with_known_quantile(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `_gaussian_topk` made to take the quantile from Python while it is traced."""

    def gaussian_topk(self: Any, inputs: Any) -> Any:
        from statistics import NormalDist

        from exportcompat.patches.toolkit.tracing import is_traced

        if not is_traced(inputs):
            return original(self, inputs)
        spread = inputs.std(dim=-1, keepdim=True, unbiased=False)
        cutoff = inputs.mean(dim=-1, keepdim=True) + spread * NormalDist().inv_cdf(self.activation_sparsity)
        return (inputs - cutoff).relu()

    return gaussian_topk


SPECS = (
    PatchingSpec(
        id="gemma3n-activation-quantile",
        targets=("transformers.models.gemma3n.modeling_gemma3n:Gemma3nTextMLP._gaussian_topk",),
        replacement=f"{__name__}:with_known_quantile",
        requires=("transformers>=4.53", "torch>=2.6"),
        reason="Gemma 3n computes a quantile of the normal distribution, for which ONNX has no operator: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/gemma3n/modeling_gemma3n.py",
        ),
        proofs=("gemma3n",),
        defect=(r"\.icdf\(",),
        spreads=True,
        kind="wrap",
    ),
)
