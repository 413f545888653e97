"""`StaticCache`, `HybridCache` and `SlidingWindowCache` are no pytree nodes.

Symptom: `torch.export` refuses such a cache among the inputs.
What is done: inside the scope the leaves are `0.key`, `0.value`, `1.key`, ..., `(batch, kv_heads, length, head_dim)`
each, and what else a layer keeps as a tensor: `0.cumulative_length` from 5.4 on. The other attributes are kept for a
round trip, and are no part of what is compared.
What it cannot do: from 4.56 on a sliding layer of fixed size counts with a Python number, and branches on it. A graph
would be right on one side of the window only, so an export with such a layer is refused.
Can go: when transformers registers these classes itself.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from exportcompat.registry import PatchingSpec

from ._pytree_node import cache_node

_MODULE = "transformers.cache_utils"
_KEY_VALUE = {"keys": "key", "values": "value"}
_IDS = {
    "StaticCache": "static-cache-pytree",
    "SlidingWindowCache": "sliding-cache-pytree",
    "HybridCache": "hybrid-cache-pytree",
}
_LISTS = {"key_cache": "key", "value_cache": "value"}


@dataclass(frozen=True)
class StaticLayout:
    """What such a cache is besides its tensors.

    Attributes:
        cls: name of its class.
        layers: names of the leaves of each layer.
        kinds: names of the classes of the layers; empty where a cache has lists instead.
        state: the other attributes, by reference.
        states: those of each layer.
    """

    cls: str
    layers: tuple[tuple[str, ...], ...]
    kinds: tuple[str, ...] = ()
    state: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    states: tuple[dict[str, Any], ...] = field(default=(), compare=False, repr=False)


def node_of_static_cache(original: Any) -> dict[str, Any]:
    """Return the arguments of `torch.utils._pytree.register_pytree_node` for `StaticCache`."""
    return cache_node("StaticCache", flatten, unflatten)


def node_of_sliding_window_cache(original: Any) -> dict[str, Any]:
    """Return the arguments of `register_pytree_node` for `SlidingWindowCache`."""
    return cache_node("SlidingWindowCache", flatten, unflatten)


def node_of_hybrid_cache(original: Any) -> dict[str, Any]:
    """Return the arguments of `register_pytree_node` for `HybridCache`."""
    return cache_node("HybridCache", flatten, unflatten)


def flatten(cache: Any) -> tuple[list[Any], StaticLayout]:
    """Return the leaves and the layout."""
    found = list(_tensors(cache))
    names = tuple(tuple(_KEY_VALUE.get(name, name) for name in layer) for layer in found)
    layers = getattr(cache, "layers", ())
    layout = StaticLayout(
        type(cache).__name__,
        names,
        tuple(type(layer).__name__ for layer in layers),
        {name: value for name, value in vars(cache).items() if name not in (*_LISTS, "layers")},
        tuple(
            {k: v for k, v in vars(layer).items() if k not in own} for layer, own in zip(layers, found, strict=False)
        ),
    )
    return [leaf for layer in found for leaf in layer.values()], layout


def unflatten(leaves: Iterable[Any], layout: StaticLayout) -> Any:
    """Return a cache with the leaves and the layout.

    Raises:
        ValueError: the cache is traced, and one of its layers counts with a Python number.
    """
    import transformers.cache_utils as caches

    cache, rest = _bare(getattr(caches, layout.cls), layout.state), iter(leaves)
    held = [{name: _own(next(rest)) for name in names} for names in layout.layers]
    if not layout.kinds:
        vars(cache).update({place: [layer[name] for layer in held] for place, name in _LISTS.items()})
        return cache
    _check_counters(layout, next((leaf for layer in held for leaf in layer.values()), None))
    cache.layers = [
        _layer(getattr(caches, kind), state, leaf)
        for kind, state, leaf in zip(layout.kinds, layout.states, held, strict=True)
    ]
    return cache


def _tensors(cache: Any) -> Iterator[dict[str, Any]]:
    """Yield attribute and tensor of each layer."""
    import torch

    if not hasattr(cache, "layers"):
        pairs = zip(cache.key_cache, cache.value_cache, strict=True)
        yield from (dict(zip(_LISTS.values(), pair, strict=True)) for pair in pairs)
        return
    for layer in cache.layers:
        held = {name: value for name, value in vars(layer).items() if isinstance(value, torch.Tensor)}
        yield {name: held[name] for name in sorted(held, key=lambda name: ([*_KEY_VALUE, name].index(name), name))}


def _bare(cls: Any, state: dict[str, Any]) -> Any:
    """Return an object with the attributes alone."""
    import torch

    made = cls.__new__(cls)
    # Which layers slide is a tensor to 4.48; in a graph it would be data that an `if` depends on.
    flags = {name: value.tolist() for name, value in state.items() if getattr(value, "dtype", None) is torch.bool}
    vars(made).update({**state, **flags})
    return made


def _check_counters(layout: StaticLayout, leaf: Any) -> None:
    from exportcompat.patches.toolkit.tracing import is_traced

    counters = [
        (kind, name)
        for kind, state in zip(layout.kinds, layout.states, strict=True)
        for name, value in state.items()
        if name.startswith("cumulative_length") and type(value) is int
    ]
    if counters and is_traced(leaf):
        raise ValueError(
            f"spec '{_IDS[layout.cls]}': {counters[0][0]} counts its tokens with a Python number ({counters[0][1]}), "
            "so a graph would be right on one side of its window only; pass a DynamicCache"
        )


def _own(leaf: Any) -> Any:
    """Return a leaf that may be written to: these caches change in place, and the inputs of a graph must not."""
    from exportcompat.patches.toolkit.tracing import is_traced

    return leaf.clone() if hasattr(leaf, "clone") and is_traced(leaf) else leaf


def _layer(cls: Any, state: dict[str, Any], leaves: dict[str, Any]) -> Any:
    layer = cls.__new__(cls)
    attributes = {name: key for key, name in _KEY_VALUE.items()}
    vars(layer).update(state)
    vars(layer).update({attributes.get(name, name): leaf for name, leaf in leaves.items()})
    return layer


_REASON = "A cache of fixed size cannot be an input or an output of a graph."
_UPSTREAM = (
    "https://github.com/huggingface/transformers/blob/v4.44.2/src/transformers/cache_utils.py",
    "https://github.com/huggingface/transformers/blob/v4.54.1/src/transformers/cache_utils.py",
    "https://github.com/huggingface/transformers/blob/v5.4.0/src/transformers/cache_utils.py",
)


def _spec(name: str, cls: str, releases: str, proof: str, defect: str) -> PatchingSpec:
    return PatchingSpec(
        id=_IDS[cls],
        targets=(f"pytree({_MODULE}:{cls})",),
        replacement=f"{__name__}:node_of_{name}_cache",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason=_REASON,
        upstream=_UPSTREAM,
        proofs=(proof,),
        defect=(defect,),
        kind="pytree",
    )


SPECS = (
    _spec("static", "StaticCache", ">=4.44", "llama_static", r"self\.key_cache\b|super\(\)\.__init__\("),
    _spec(
        "sliding_window",
        "SlidingWindowCache",
        ">=4.46,<4.56",
        "mistral_ring",
        r"sliding_window|layer_classes=SlidingWindowLayer",
    ),
    _spec("hybrid", "HybridCache", ">=4.44,<4.56", "gemma2_hybrid", r"^class HybridCache\(Cache\)"),
)
