"""The caches of Qwen3-Next and Qwen3.5 to 5.4 are no pytree nodes.

Symptom: `torch.export` refuses a `Qwen3NextDynamicCache` or `Qwen3_5DynamicCache` among the inputs.
What is done: inside the scope the leaves are, layer by layer, `0.conv_state` and `0.recurrent_state`, or `0.key` and
`0.value` for attention; what a layer does not have yet, or never has, is left out. What else the cache has (types of
layers) is kept for a round trip, and is no part of what is compared.
Can go: with transformers 5.4; from 5.5 on these models have a `DynamicCache` (see `dynamic-cache-pytree`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from exportcompat.registry import PatchingSpec

from ._cache_nodes import node as cache_node

_PLACES = {
    "conv_state": "conv_states",
    "recurrent_state": "recurrent_states",
    "key": "key_cache",
    "value": "value_cache",
}


@dataclass(frozen=True)
class StatesLayout:
    """What such a cache is besides its tensors.

    Attributes:
        layers: names of the leaves of each layer.
        state: the other attributes, by reference.
    """

    layers: tuple[tuple[str, ...], ...]
    state: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


def next_node(original: Any) -> dict[str, Any]:
    """Return the arguments of `torch.utils._pytree.register_pytree_node` for the cache of Qwen3-Next."""
    return _node("qwen3_next", "Qwen3NextDynamicCache")


def dense_node(original: Any) -> dict[str, Any]:
    """Return those for the cache of Qwen3.5."""
    return _node("qwen3_5", "Qwen3_5DynamicCache")


def moe_node(original: Any) -> dict[str, Any]:
    """Return those for the cache of Qwen3.5-MoE."""
    return _node("qwen3_5_moe", "Qwen3_5MoeDynamicCache")


def _node(model: str, name: str) -> dict[str, Any]:
    return cache_node(name, flatten, _unflatten_as(model, name))


def flatten(cache: Any) -> tuple[list[Any], StatesLayout]:
    """Return the leaves and the layout."""
    filled = [
        {name: leaf for name, place in _PLACES.items() if (leaf := getattr(cache, place)[index]) is not None}
        for index in range(len(cache.conv_states))
    ]
    state = {name: value for name, value in vars(cache).items() if name not in _PLACES.values()}
    return [leaf for layer in filled for leaf in layer.values()], StatesLayout(tuple(map(tuple, filled)), state)


def _unflatten_as(model: str, name: str) -> Callable[[Iterable[Any], StatesLayout], Any]:
    def unflatten(leaves: Iterable[Any], layout: StatesLayout) -> Any:
        """Return a cache with the leaves and the layout."""
        import importlib

        cls = getattr(importlib.import_module(f"{_MODELS}.{model}.modeling_{model}"), name)
        cache, rest = cls.__new__(cls), iter(leaves)
        vars(cache).update(layout.state)
        layers = [{name: next(rest) for name in names} for names in layout.layers]
        for kind, place in _PLACES.items():
            setattr(cache, place, [layer.get(kind) for layer in layers])
        return cache

    return unflatten


_MODELS = "transformers.models"


def _spec(name: str, cls: str, replacement: str, requires: str, proof: str) -> PatchingSpec:
    return PatchingSpec(
        id=f"{name.replace('_', '-')}-cache-pytree",
        targets=(f"pytree({_MODELS}.{name}.modeling_{name}:{cls})",),
        replacement=f"{__name__}:{replacement}",
        requires=(requires, "torch>=2.6"),
        reason="The cache of a Qwen3-Next or Qwen3.5 model cannot be an input or an output of a graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/qwen3_next/modeling_qwen3_next.py",
        ),
        proofs=(proof,),
        defect=(r"self\.conv_states\b", r"self\.recurrent_states\b"),
        kind="pytree",
    )


SPECS = (
    _spec("qwen3_next", "Qwen3NextDynamicCache", "next_node", "transformers>=4.57,<5.5", "qwen3_next"),
    _spec("qwen3_5", "Qwen3_5DynamicCache", "dense_node", "transformers>=5.2,<5.5", "qwen3_5_text"),
    _spec("qwen3_5_moe", "Qwen3_5MoeDynamicCache", "moe_node", "transformers>=5.2,<5.5", "qwen3_5_moe_text"),
)
