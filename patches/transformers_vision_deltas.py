"""A number that the model keeps from an earlier call is a result of each call.

Symptom: the output `rope_deltas` of an exported Qwen2-VL, Qwen2.5-VL or Qwen3-VL is a constant, that of the last call
before the export.
Cause: where positions are handed over, `forward` returns what `generate` has stored in `self.rope_deltas`.
What is done: within a scope it is no result of a call with positions. `generate` reads it from the model.
Can go: with transformers 5.22, after which it is no result at all.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def without_deltas(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward`, made to leave `rope_deltas` out of its result where it is given positions."""

    def forward(self: Any, input_ids: Any = None, *args: Any, **kwargs: Any) -> Any:
        result = original(self, input_ids, *args, **kwargs)
        if kwargs.get("position_ids") is None or not hasattr(result, "keys"):
            return result
        return type(result)(**{name: value for name, value in result.items() if name != "rope_deltas"})

    return forward


_MODELS = (
    "transformers.models.qwen2_vl.modeling_qwen2_vl:Qwen2VLModel",
    "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl:Qwen2_5_VLModel",
    "transformers.models.qwen3_vl.modeling_qwen3_vl:Qwen3VLModel",
)
_SOURCE = (
    "https://github.com/huggingface/transformers/blob/{}/src/transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py"
)


def _variant(releases: str, models: int, tag: str) -> PatchingSpec:
    return PatchingSpec(
        id="vision-rope-deltas",
        targets=tuple(f"{model}.forward" for model in _MODELS[:models]),
        replacement=f"{__name__}:without_deltas",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="What the model keeps from an earlier call is an output, and a constant in the graph: wrong.",
        upstream=(_SOURCE.format(tag),),
        proofs=("qwen2_5_vl_generate",),
        kind="wrap",
    )


SPECS = (_variant(">=4.52,<4.57", 2, "v4.56.2"), _variant(">=4.57,<5.23", 3, "v5.22.2"))
