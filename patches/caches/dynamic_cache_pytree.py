"""`DynamicCache` is no pytree node, or one whose leaves do not fit a decoder's interface.

Symptom: `torch.export` refuses a `DynamicCache` among the inputs. Where transformers registers it (4.50-4.55 when it
is imported, later on request) all keys come before all values, and windows or layer types are lost on some versions.
What is done: inside the scope the leaves are key 0, value 0, key 1, value 1, ... of the initialised layers; layers
with an indexer (5.12 and later) have `index_key` too, and `index_position` where it keeps positions; layers without
attention (5.5 and later) have `conv_state` and `recurrent_state`; those of DeepSeek-V4 have no values, and what they
keep compressed. Layer types and windows are in the context.
Counters are kept for a round trip and are no part of what is compared, so a graph that was traced at one past length
takes every other. A registration by somebody else is taken over, and given back afterwards.
Can go: when transformers registers the class itself with these leaves.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from exportcompat.registry import PatchingSpec

from ._pytree_node import cache_node

_CACHE = "transformers.cache_utils"
_LEAVES = ("keys", "values")
_PAIR = ("key", "value")
_STATES = ("conv_states", "recurrent_states")
_KEYS = "index_key"
_INDEX = {_KEYS: "indexer_keys", "index_position": "indexer_position_ids"}
_KNOWN = (
    "DynamicLayer",
    "DynamicIndexedLayer",
    "DynamicSlidingWindowLayer",
    "LinearAttentionLayer",
    "LinearAttentionAndFullAttentionLayer",
    "LinearAttentionAndSlidingWindowAttentionLayer",
    "DummyLayer",
)


@dataclass(frozen=True)
class LayerLayout:
    """What a layer is besides its tensors.

    Attributes:
        name: class of the layer.
        window: sliding window in tokens; None if it has none.
        leaves: names of the tensors that the layer has so far.
        dropped: tokens that the layer has counted and no longer holds.
        state: the other attributes, by reference, without those that exist in a graph only; None if nothing is known.
    """

    name: str
    window: int | None
    leaves: tuple[str, ...]
    dropped: int = field(default=0, compare=False)
    state: dict[str, Any] | None = field(default=None, compare=False, repr=False)

    def __iter__(self) -> Iterator[str]:
        return iter(self.leaves)


@dataclass(frozen=True)
class CacheLayout:
    """What a cache is besides its tensors; equal for caches that one graph can take."""

    layers: tuple[LayerLayout, ...]
    state: dict[str, Any] | None = field(default=None, compare=False, repr=False)


def node_of_dynamic_cache(original: None) -> dict[str, Any]:
    """Return the arguments of `torch.utils._pytree.register_pytree_node` for `DynamicCache`."""
    return cache_node(
        "DynamicCache",
        flatten,
        unflatten,
        to_dumpable_context=lambda layout: [[item.name, item.window, [*item]] for item in layout.layers],
        from_dumpable_context=lambda rows: CacheLayout(
            tuple(LayerLayout(name, window, tuple(leaves)) for name, window, leaves in rows)
        ),
    )


def flatten(cache: Any) -> tuple[list[Any], CacheLayout]:
    """Return the leaves, `(batch, kv_heads, past, head_dim)` each for attention, and the layout.

    Raises:
        TypeError: a layer is of a class that this spec does not know.
    """
    layouts = tuple(_layout(layer, index) for index, layer in enumerate(cache.layers))
    leaves = [leaf for layer in cache.layers for _, leaf in _tensors(layer)]
    return leaves, CacheLayout(layouts, _state(cache, ("layers",)))


def unflatten(leaves: Iterable[Any], layout: CacheLayout) -> Any:
    """Return a cache with the leaves and the layout.

    Raises:
        ValueError: the cache is traced and one of its layers has dropped tokens.
    """
    from transformers import DynamicCache

    cache = DynamicCache() if layout.state is None else DynamicCache.__new__(DynamicCache)
    vars(cache).update(layout.state or {})
    rest = iter(leaves)
    cache.layers = [_layer(item, rest) for item in layout.layers]
    return cache


def _layout(layer: Any, index: int) -> LayerLayout:
    from transformers import cache_utils

    from ._compressed_layers import WINDOW_STATES, is_compressed

    if not is_compressed(layer) and type(layer) not in [getattr(cache_utils, name, None) for name in _KNOWN]:
        raise TypeError(
            f"spec 'dynamic-cache-pytree': layer {index} of the cache is a {type(layer).__name__}; only "
            f"{', '.join(_KNOWN)} are flattened. Pass a cache of those, or register the class as a pytree "
            "node yourself and exclude this id"
        )
    leaves = dict(_tensors(layer))
    held = leaves["key"].shape[-2] if hasattr(leaves.get("key"), "shape") else 0
    # In a graph the counter is symbolic, and equal to what is held: `_describe` has seen to it.
    counted = getattr(layer, "cumulative_length", held)
    dropped = counted - held if type(counted) is type(held) is int else 0
    window = getattr(layer, "sliding_window", None)
    apart = (*_LEAVES, *_STATES, *_INDEX.values(), *WINDOW_STATES)
    return LayerLayout(type(layer).__name__, window, tuple(leaves), dropped, _state(layer, apart))


def _tensors(layer: Any) -> list[tuple[str, Any]]:
    """Return name and tensor of what a layer holds."""
    from exportcompat.patches.toolkit.layer_states import layer_states

    from ._compressed_layers import is_compressed, window_states

    if is_compressed(layer):
        # Keys are the values.
        return [(_PAIR[0], layer.keys), *window_states(layer)] if layer.keys is not None else []
    pair = [(name, getattr(layer, leaf, None)) for name, leaf in zip(_PAIR, _LEAVES, strict=True)]
    pair += [(name, getattr(layer, attribute, None)) for name, attribute in _INDEX.items()]
    return [(name, leaf) for name, leaf in pair if leaf is not None] + list(layer_states(layer))


def _state(owner: Any, leaves: tuple[str, ...]) -> dict[str, Any]:
    """Return the attributes besides the leaves and what is traced: torch copies contexts, and cannot copy that."""
    kept = {name: value for name, value in vars(owner).items() if name not in leaves}
    return {name: _own(value) for name, value in kept.items() if not _is_of_a_call(value)}


def _is_of_a_call(value: Any) -> bool:
    """Say whether a value exists in a graph only, or has tensors that one layer leaves to others (Gemma 3n to 5.4)."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    held = torch.utils._pytree.tree_leaves(value) if isinstance(value, dict) else []
    return isinstance(value, (FakeTensor, torch.SymInt)) or any(isinstance(item, torch.Tensor) for item in held)


def _own(value: Any) -> Any:
    """Return a value that the owner does not change later: flags are in dictionaries since 5.14."""
    return dict(value) if type(value) is dict else value


def _layer(layout: LayerLayout, leaves: Any) -> Any:
    from exportcompat.patches.toolkit.layer_states import set_layer_state

    from ._compressed_layers import is_compressed, set_window_state

    layer = _empty(layout)
    held = {name: next(leaves) for name in layout}
    if "key" in held:
        layer.keys = held.pop("key")
        layer.values = held.pop("value", layer.keys)
        layer.is_initialized = True
        _describe(layer, layout)
    for name in [name for name in held if name in _INDEX]:
        _set_index(layer, name, held.pop(name))
    put = set_window_state if is_compressed(layer) else set_layer_state
    for name, state in held.items():
        put(layer, name, state)
    return layer


def _set_index(layer: Any, name: str, leaf: Any) -> None:
    """Give a layer what its indexer keeps: keys, `(batch, past, index_head_dim)`, or positions, `(3, batch, past)`."""
    setattr(layer, _INDEX[name], leaf)
    if name != _KEYS:
        return
    layer.is_indexer_initialized = True
    # Leaves of another kind than tensors (shapes, names) have no type to go by.
    if hasattr(leaf, "new_empty"):
        layer.indexer_dtype, layer.indexer_device = leaf.dtype, leaf.device


def _empty(layout: LayerLayout) -> Any:
    from transformers import cache_utils

    from exportcompat.patches.toolkit.layer_states import state_number

    from ._compressed_layers import blank_layer

    cls = getattr(cache_utils, layout.name, None)
    options = {} if layout.window is None else {"sliding_window": layout.window}
    numbers = list(filter(None, map(state_number, layout)))
    numbered = {"number_of_states": 1 + max(numbers)} if numbers else {}
    layer = blank_layer(layout.name, layout.window) if cls is None else cls(**options, **numbered)
    vars(layer).update({name: _own(value) for name, value in (layout.state or {}).items()})
    return layer


def _describe(layer: Any, layout: LayerLayout) -> None:
    """Set what follows from the keys; leaves of another kind than tensors (shapes, names) have nothing to follow."""
    from exportcompat.patches.toolkit.tracing import is_traced

    if not hasattr(layer.keys, "new_empty"):
        return
    layer.dtype, layer.device = layer.keys.dtype, layer.keys.device
    if not hasattr(layer, "cumulative_length"):
        return
    if is_traced(layer.keys) and layout.dropped:
        raise ValueError(
            f"spec 'dynamic-cache-pytree': the sample cache has dropped {layout.dropped} tokens of a sliding window "
            f"({layout.window}), but a graph takes the full past. Make the sample cache inside apply_patches(), or "
            "with a past that is shorter than the window: the axis is dynamic"
        )
    layer.cumulative_length = layout.dropped + layer.keys.shape[-2]


_REASON = "A DynamicCache cannot be an input or an output of a graph, or its leaves are in another order."
_UPSTREAM = (
    "https://github.com/huggingface/transformers/issues/36311",
    "https://github.com/huggingface/transformers/issues/47900",
)
_PROOFS = ("llama", "mistral_window", "gemma2_window", "phi3_longrope", "llama_dynamic")
# Where transformers registers the class itself, only the order of the leaves is in the way.
_ORDER = ("llama_pairs",)
_LISTS = "exportcompat.patches.caches._key_value_lists:node_of_list_cache"
_LAYERS = f"{__name__}:node_of_dynamic_cache"


def _variant(
    releases: str, replacement: str, proofs: tuple[str, ...], defect: tuple[str, ...], *, spreads: bool = False
) -> PatchingSpec:
    return PatchingSpec(
        id="dynamic-cache-pytree",
        targets=(f"pytree({_CACHE}:DynamicCache)",),
        replacement=replacement,
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason=_REASON,
        upstream=_UPSTREAM,
        proofs=proofs,
        defect=defect,
        spreads=spreads,
        kind="pytree",
    )


SPECS = (
    _variant(">=4.44,<4.50", _LISTS, _PROOFS, (r"self\.key_cache\b", r"self\.value_cache\b")),
    _variant(">=4.50,<4.54", _LISTS, _ORDER, (r"self\.key_cache\b", r"self\.value_cache\b")),
    _variant(">=4.54,<4.56", _LAYERS, _ORDER, (r"super\(\)\.__init__\(", r"\bDynamicLayer\b")),
    # A cache of another class, wherever it is, is no node either.
    _variant(
        ">=4.56",
        _LAYERS,
        (*_PROOFS, "inkling"),
        (r"^class \w+\(\w*Cache\):", r"super\(\)\.__init__\(layer"),
        spreads=True,
    ),
)
