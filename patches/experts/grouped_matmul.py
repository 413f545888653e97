"""Experts are multiplied in groups by an operator that ONNX does not have.

Symptom: `No ONNX function found for transformers.grouped_mm_fallback` (or `aten._grouped_mm`): Mixtral, Qwen-MoE,
gpt-oss and every other model with experts, since 5.x takes "grouped_mm" by default.
Cause: tokens are sorted by expert, and each expert multiplies the rows between two offsets. How many there are is data.
What is done: while they are traced, the experts are the turns of a `scan` (see `_expert_scan`). The graph has one body
for all of them, and each turn multiplies the rows of its expert alone, so that a call costs what it costs in eager.
Where torch cannot export that, each expert multiplies all rows, with those of others set to 0, and the products are
added: as many products of all rows as there are experts, and nodes for each.
5.0 and 5.1 take another way with a torch that has no grouped product, before 2.9.
Can go: when ONNX has a grouped product, or transformers an implementation without one and without a loop over data.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants


def patch_grouped_mm(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_grouped_mm` let every expert multiply all rows while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    # In 5.2, where it begins, the offsets have a default; every caller gives them.
    def _grouped_mm(input: Any, weight: Any, offs: Any = None) -> Any:  # noqa: A002 (upstream's name)
        if offs is None or not is_traced(input):
            return original(input, weight, offs)
        return _products(input, weight, offs)

    return _grouped_mm


def patch_grouped_linear(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_grouped_linear` of transformers 5.0 and 5.1 do the same."""
    from exportcompat.patches.toolkit.tracing import is_traced

    def _grouped_linear(
        input: Any,  # noqa: A002 (upstream's name)
        weight: Any,
        bias: Any = None,
        offs: Any = None,
        is_transposed: bool = False,
    ) -> Any:
        if not is_traced(input):
            return original(input, weight, bias, offs, is_transposed)
        products = _products(input, weight if is_transposed else weight.transpose(-2, -1), offs)
        return products if bias is None else products + bias

    return _grouped_linear


def _products(rows: Any, weights: Any, ends: Any) -> Any:
    """Return each row times the weights of its expert.

    Args:
        rows: `(rows, inputs)`, sorted by expert.
        weights: `(experts, inputs, outputs)`.
        ends: `(experts,)`, the first row behind those of each expert.

    Returns:
        `(rows, outputs)`.
    """
    import torch

    places = torch.arange(rows.shape[0], device=rows.device)[:, None]
    ends = ends.to(places.dtype)
    products = 0
    for expert in range(weights.shape[0]):
        begin = ends[expert - 1] if expert else 0
        is_own = (places >= begin) & (places < ends[expert])
        products = products + torch.where(is_own, rows, 0.0) @ weights[expert].to(rows.dtype)
    return products


_LINEAR = {
    "targets": ("transformers.integrations.moe:_grouped_linear",),
    "replacement": f"{__name__}:patch_grouped_linear",
    "defect": (r"torch\._grouped_mm\(",),
    "upstream": (source("integrations/moe.py", "v5.1.0"),),
}
_MM = {
    "targets": ("transformers.integrations.moe:_grouped_mm",),
    "replacement": f"{__name__}:patch_grouped_mm",
    "defect": (r"grouped_mm\(",),
}
_SCAN = {
    "targets": ("transformers.integrations.moe:ALL_EXPERTS_FUNCTIONS[grouped_mm]",),
    "replacement": "exportcompat.patches.experts._expert_scan:patch_grouped_mm_experts_forward",
    "defect": (r"_grouped_linear\(",),
    "higher_order": ("scan",),
}
_NEWEST = {"upstream": (source("integrations/moe.py", "v5.24.0"),)}

SPECS = variants(
    {
        "id": "experts-grouped-matmul",
        "reason": "Experts are multiplied in groups by an operator that ONNX does not have: no graph.",
        "proofs": ("mixtral", "gpt_oss"),
        "kind": "wrap",
    },
    {
        ("transformers>=5.0,<5.2", "torch>=2.9"): _LINEAR,
        ("transformers>=5.2,<5.24", "torch>=2.6"): {**_MM, "upstream": (source("integrations/moe.py", "v5.23.0"),)},
        ("transformers>=5.24", "torch>=2.6,<2.13"): {**_MM, **_NEWEST},
        ("transformers>=5.24", "torch>=2.13"): {**_SCAN, **_NEWEST},
    },
)
