"""An empty cache layer puts a constant into the graph that the ONNX exporter cannot lift.

Symptom: `SpecViolationError: Constant tensor lifted_tensor_4 is not in the constants dictionary`, where a cache is
filled while it is traced: with transformers' own registration as a pytree node, every decoder.
Cause: the first `update` of a layer makes `torch.tensor([])` for keys and values while the graph is recorded.
Can go: with torch 2.13; torch 2.14 lifts the constant (run on 2.13.0, 2.14.0 and 2.15.0).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_CACHE = "transformers.cache_utils"
_UPSTREAM = "https://github.com/huggingface/transformers/blob/{}/src/transformers/cache_utils.py"


def initialize(layer: Any, key_states: Any, value_states: Any) -> None:
    """Give `layer` keys and values of length 0, `(batch, heads, 0, head_dim)`, each with its own head size."""
    layer.dtype, layer.device = key_states.dtype, key_states.device
    layer.keys = key_states[:, :, :0]
    layer.values = value_states[:, :, :0]
    layer.is_initialized = True


def patch_dynamic_layer_update(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `update` initialise the layer itself (4.x hands no values to `lazy_initialization`)."""

    def update(self: Any, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> Any:
        if self.keys is None:
            initialize(self, key_states, value_states)
        return original(self, key_states, value_states, *args, **kwargs)

    return update


def patch_lazy_initialization(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `lazy_initialization` do without tensor constants."""

    def lazy_initialization(self: Any, key_states: Any, value_states: Any) -> None:
        initialize(self, key_states, value_states)

    return lazy_initialization


_REASON = "The first update of an empty layer records a constant that the ONNX exporter cannot lift: no graph."

SPECS = (
    PatchingSpec(
        id="dynamic-layer-empty",
        targets=(f"{_CACHE}:DynamicLayer.update",),
        replacement=f"{__name__}:patch_dynamic_layer_update",
        requires=("transformers>=4.56,<5.0", "torch>=2.6,<2.14"),
        reason=_REASON,
        upstream=(_UPSTREAM.format("v4.57.6"),),
        proofs=("llama_official:2,none,4",),
        defect=(r"self\.lazy_initialization\(key_states\)",),
        kind="wrap",
    ),
    PatchingSpec(
        id="dynamic-layer-empty",
        targets=(f"{_CACHE}:DynamicLayer.lazy_initialization",),
        replacement=f"{__name__}:patch_lazy_initialization",
        requires=("transformers>=5.0", "torch>=2.6,<2.14"),
        reason=_REASON,
        upstream=(_UPSTREAM.format("v5.23.0"),),
        proofs=("llama_official:2,none,4",),
        defect=(r"self\.keys = torch\.tensor\(\[\]",),
        kind="replace",
    ),
)
