"""PhiMoE with longrope asks in Python how long the text is, in a body of its own.

Symptom: `Could not guard on data-dependent expression Eq(u0, 1)` for Phi-3.5-MoE and every PhiMoE with longrope.
Cause: its rotary `forward` takes `max(position_ids) + 1` for a bool, and picks the scale of cosines by an `if` on it.
To 5.14 it has the frequencies of the length computed, too; later ones do not change, whatever `rotary-frequencies` and
upstream do about other models.
What is done: while it is traced, the body runs once for short and once for long texts, and `torch.where` picks one.
Can go: when the scale is picked by a tensor upstream.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_rotary_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rotary `forward` made to pick its scale in the graph, without the buffers that upstream updates."""
    from exportcompat.patches.toolkit.tracing import is_traced

    from ._rotary_both_branches import patch_rotary_forward as patch_both_branches

    undecorated: Any = original
    while "dynamic_frequency_update" not in undecorated.__code__.co_freevars:
        undecorated = undecorated.__wrapped__
    in_graph = patch_both_branches(undecorated.__wrapped__)

    def forward(self: Any, x: Any, position_ids: Any = None) -> Any:
        return (in_graph if is_traced(position_ids) else original)(self, x, position_ids)

    return forward


SPECS = (
    PatchingSpec(
        id="phimoe-rotary-scale",
        targets=("transformers.models.phimoe.modeling_phimoe:PhimoeRotaryEmbedding.forward",),
        replacement=f"{__name__}:patch_rotary_forward",
        requires=("transformers>=5.0", "torch>=2.6"),
        reason="PhiMoE picks the scale of cosines by an if on the length of the text: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/models/phimoe/modeling_phimoe.py",
        ),
        proofs=("phimoe_longrope",),
        kind="wrap",
    ),
)
