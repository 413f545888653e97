"""Gemma 3n cuts off a weight in place in each call: no graph may write to its parameters.

Symptom: `We found a fake tensor in the exported program constant's list` (`model.layers.0.lifted_tensor_1`).
Cause: `AltUp.correct` calls `weight.data.clamp_` in inference too.
What is done: while it is traced, the weight that is used is cut off, and the parameter stays as it is.
Can go: with transformers 4.57; from 5.0 on it is cut off in training only (5.0.0 and 5.1.0 were run).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def with_clipped_copy(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `correct` made to leave the weight as it is while it is traced.

    It takes predictions, `(altup_num_inputs, batch, tokens, hidden)`, and what became of the active one,
    `(batch, tokens, hidden)`.
    """

    def correct(self: Any, predictions: Any, activated: Any) -> Any:
        import torch

        from exportcompat.patches.toolkit.tracing import is_traced

        clip, weight = self.config.altup_coef_clip, self.correction_coefs.weight
        if clip is None or not is_traced(activated):
            return original(self, predictions, activated)
        routed = self.compute_router_modalities(activated)
        shares = torch.nn.functional.linear(routed, weight.clamp(-clip, clip)) + 1.0
        change = activated - predictions[self.config.altup_active_idx]
        return (predictions + change * shares.permute(2, 0, 1)[..., None]).contiguous().type_as(activated)

    return correct


SPECS = (
    PatchingSpec(
        id="gemma3n-altup-clip",
        targets=("transformers.models.gemma3n.modeling_gemma3n:Gemma3nTextAltUp.correct",),
        replacement=f"{__name__}:with_clipped_copy",
        requires=("transformers>=4.53,<5.0", "torch>=2.6"),
        reason="Gemma 3n cuts off a weight in place in each call, which no graph can do: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/gemma3n/modeling_gemma3n.py",
            "https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/models/gemma3n/modeling_gemma3n.py",
        ),
        proofs=("gemma3n",),
        defect=(r"correction_coefs\.weight\.data\.clamp_",),
        kind="wrap",
    ),
)
