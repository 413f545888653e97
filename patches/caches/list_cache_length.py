"""A cache of lists asks its keys for `len`, which makes the batch a constant of the graph.

Symptom: `Constraints Violated (batch)`: the batch was marked as dynamic and specialised to that of the sample; every
decoder of transformers 4.45.2 to 4.50, Falcon-H1 to 5.4.
Cause: `len(self.key_cache[layer_idx]) == 0` tells skipped layers, which hold `[]`, from filled ones. For a tensor it
is the size of the first axis, as a Python int.
What is done: while it is traced, a layer with a tensor counts as filled. A tensor of length 0 may be extended like any
other, so the result is the same.
Can go: with transformers 4.50 (4.51 asks for `numel`), for Falcon-H1 with 5.4, after which it has a `DynamicCache`.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_CACHE = "transformers.cache_utils:DynamicCache"


def patch_list_cache(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep `update` or `get_seq_length` from asking a tensor for its `len` while it is traced."""
    import torch

    from exportcompat.patches.toolkit.tracing import is_traced

    def update(self: Any, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
        known = _keys(self, layer_idx)
        if not is_traced(key_states) or known is None:
            return original(self, key_states, value_states, layer_idx, *args, **kwargs)
        # Caches of models' own do not count.
        if layer_idx == 0 and hasattr(self, "_seen_tokens"):
            self._seen_tokens += key_states.shape[-2]
        for store, states in ((self.key_cache, key_states), (self.value_cache, value_states)):
            store[layer_idx] = torch.cat([store[layer_idx], states], dim=-2)
        return self.key_cache[layer_idx], self.value_cache[layer_idx]

    def get_seq_length(self: Any, layer_idx: int | None = 0) -> Any:
        known = _keys(self, layer_idx or 0)
        return original(self, layer_idx) if known is None or not is_traced(known) else known.shape[-2]

    return update if original.__name__ == "update" else get_seq_length


def _keys(cache: Any, layer_idx: int) -> Any:
    """Return the keys of a layer; None if it has none."""
    keys = cache.key_cache[layer_idx] if layer_idx < len(cache.key_cache) else []
    return None if isinstance(keys, list) else keys


_FALCON = "transformers.models.falcon_h1.modeling_falcon_h1:FalconHybridMambaAttentionDynamicCache"
_UPSTREAM = "https://github.com/huggingface/transformers/blob/v4.50.3/src/transformers/cache_utils.py"


def _spec(spec_id: str, targets: tuple[str, ...], requires: tuple[str, ...], proof: str) -> PatchingSpec:
    return PatchingSpec(
        id=spec_id,
        targets=targets,
        replacement=f"{__name__}:patch_list_cache",
        requires=requires,
        reason="A cache asks its keys for len(), which makes the batch a constant: no graph with a dynamic batch.",
        upstream=(_UPSTREAM,),
        proofs=(proof,),
        defect=(r"len\(self\.key_cache\[layer_idx\]\) == 0|self\.key_cache\[layer_idx\] == \[\]",),
        kind="wrap",
    )


SPECS = (
    _spec(
        "list-cache-length",
        (f"{_CACHE}.update", f"{_CACHE}.get_seq_length"),
        ("transformers>=4.45.2,<4.51", "torch>=2.6"),
        "llama",
    ),
    # From torch 2.13 on `torch-export-size-numbers` keeps `len` of a tensor in the modules of a model.
    _spec(
        "falcon-h1-cache-length", (f"{_FALCON}.update",), ("transformers>=4.53,<5.5", "torch>=2.6,<2.13"), "falcon_h1"
    ),
)
