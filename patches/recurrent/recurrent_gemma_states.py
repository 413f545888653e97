"""RecurrentGemma keeps the states of its layers on the modules, and does not return its cache.

Symptom: `RecurrentGemmaForCausalLM writes to the cache that `generate` hands to it, and does not return it`. In eager
mode, two texts that are continued by turns are mixed: there is one state for all.
Cause: `self.conv1d_state` and `self.rg_lru.recurrent_states`; the cache has keys and values of attention alone, and
`CausalLMOutput` has no place for it.
What is done: inside the scope, in eager mode too, a call takes the states from the layers of its cache, which
transformers makes for them, puts them back there, and returns the cache; the modules are as they were before.
Can go: when upstream keeps the states in the cache, and returns it.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec

_MODULE = "transformers.models.recurrent_gemma.modeling_recurrent_gemma"
_CONVOLUTION, _RECURRENT = "conv1d_state", "recurrent_states"


def patch_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of a model take its states from the cache, or that of a causal model return it."""
    return _returning(original) if "logits_to_keep" in inspect.signature(original).parameters else _stateless(original)


def _returning(original: Callable[..., Any]) -> Callable[..., Any]:
    from exportcompat.patches.toolkit.cache_names import CACHES, cache_of

    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        from transformers import DynamicCache
        from transformers.modeling_outputs import CausalLMOutputWithPast

        given = signature.bind(self, *args, **kwargs).arguments
        use_cache = given.get("use_cache")
        if not (self.config.use_cache if use_cache is None else use_cache):
            return original(self, *args, **kwargs)
        cache = cache_of(given)
        if cache is None:
            cache = DynamicCache(config=self.config)
            kwargs = {**{name: value for name, value in kwargs.items() if name not in CACHES}, "cache": cache}
        result = original(self, *args, **kwargs)
        return (*result, cache) if isinstance(result, tuple) else CausalLMOutputWithPast(**result, cache=cache)

    return forward


def _stateless(original: Callable[..., Any]) -> Callable[..., Any]:
    from exportcompat.patches.toolkit.cache_names import cache_of

    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        cache = cache_of(signature.bind(self, *args, **kwargs).arguments)
        if cache is None:
            return original(self, *args, **kwargs)
        blocks = {
            index: layer.temporal_block
            for index, layer in enumerate(self.layers)
            if hasattr(layer.temporal_block, _CONVOLUTION)
        }
        with _states_of(cache, blocks):
            return original(self, *args, **kwargs)

    return forward


@contextmanager
def _states_of(cache: Any, blocks: dict[int, Any]) -> Iterator[None]:
    """Let blocks, by the number of their layer, have the states of a cache meanwhile, and put the new ones there.

    Raises:
        ValueError: the cache has no place for them.
    """
    from ._states import read_states, store_states

    _check(cache, blocks)
    before = {index: _held(block) for index, block in blocks.items()}
    try:
        for index, block in blocks.items():
            _put(block, *read_states(cache, index))
        yield
        for index, block in blocks.items():
            if None not in (states := _held(block)):
                store_states(cache, index, *states)
    finally:
        for index, block in blocks.items():
            _put(block, *before[index])


def _held(block: Any) -> tuple[Any, Any]:
    return getattr(block, _CONVOLUTION), getattr(block.rg_lru, _RECURRENT)


def _put(block: Any, convolution: Any, recurrent: Any) -> None:
    setattr(block, _CONVOLUTION, convolution)
    setattr(block.rg_lru, _RECURRENT, recurrent)


def _check(cache: Any, blocks: dict[int, Any]) -> None:
    layers = getattr(cache, "layers", ())
    lacking = [index for index in blocks if index >= len(layers) or not hasattr(layers[index], "conv_states")]
    if lacking:
        raise ValueError(
            f"spec 'recurrent-gemma-states': the cache has no place for the states of layers {lacking}; make it with "
            "the model's configuration, DynamicCache(config=model.config), or leave it out"
        )


SPECS = (
    PatchingSpec(
        id="recurrent-gemma-states",
        targets=(f"{_MODULE}:RecurrentGemmaModel.forward", f"{_MODULE}:RecurrentGemmaForCausalLM.forward"),
        replacement=f"{__name__}:patch_forward",
        requires=("transformers>=5.24", "torch>=2.6"),
        reason="RecurrentGemma keeps its states on its modules, and returns no cache: a graph has no memory.",
        upstream=(source("models/recurrent_gemma/modeling_recurrent_gemma.py", "v5.24.0"),),
        proofs=("recurrent_gemma_export",),
        kind="wrap",
    ),
)
