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

from exportcompat.patches.toolkit.records import source, variants


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


def patch_layered_rotary_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same where `forward` also takes a type of layers, and refuses any."""
    of_all_layers = patch_rotary_forward(original)

    def forward(self: Any, x: Any, position_ids: Any = None, layer_type: Any = None) -> Any:
        if layer_type is not None:
            return original(self, x, position_ids, layer_type)
        return of_all_layers(self, x, position_ids)

    return forward


SPECS = variants(
    {
        "id": "phimoe-rotary-scale",
        "targets": ("transformers.models.phimoe.modeling_phimoe:PhimoeRotaryEmbedding.forward",),
        "reason": "PhiMoE picks the scale of cosines by an if on the length of the text: no graph.",
        "proofs": ("phimoe_longrope",),
        "kind": "wrap",
    },
    {
        "transformers>=5.1,<5.15": {
            "replacement": f"{__name__}:patch_layered_rotary_forward",
            "upstream": (source("models/phimoe/modeling_phimoe.py", "v5.6.0"),),
        },
        "transformers>=5.15": {
            "replacement": f"{__name__}:patch_rotary_forward",
            "upstream": (source("models/phimoe/modeling_phimoe.py", "v5.24.0"),),
        },
    },
)
