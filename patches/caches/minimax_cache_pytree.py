"""`MiniMaxCache` is no pytree node.

Symptom: `torch.export` refuses a `MiniMaxCache` among the inputs; MiniMax-Text-01 takes no other cache.
What is done: inside the scope the leaves are, layer by layer, `0.recurrent_state`, `(batch, heads, head_dim,
head_dim)`, or `0.key` and `0.value` for attention, which are taken apart as those of a `DynamicCache`.
Can go: when MiniMax-Text has a `DynamicCache`, as other models whose layers have states do from 5.5 on.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from exportcompat.patches.toolkit.records import source, variants

from ._pytree_node import cache_node

_MODULE = "transformers.models.minimax.modeling_minimax"
_STATE = "recurrent_state"
_STATES = "linear_cache"


@dataclass(frozen=True)
class MiniMaxLayout:
    """What such a cache is besides its tensors.

    Attributes:
        filled: for each layer up to the last one with a state, whether it has one.
        attention: the layout of the rest, which is a `DynamicCache`.
    """

    filled: tuple[bool, ...]
    attention: Any

    @property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """Names of the leaves of each layer."""
        pairs = zip_longest(self.filled, self.attention.layers, fillvalue=())
        return tuple((*([_STATE] if is_filled else []), *names) for is_filled, names in pairs)


def node_of_minimax_list_cache(original: None) -> dict[str, Any]:
    """Return the arguments of `register_pytree_node` for a cache whose keys and values are in lists."""
    from ._key_value_lists import flatten, unflatten

    return _node(flatten, unflatten)


def node_of_minimax_layer_cache(original: None) -> dict[str, Any]:
    """Return the arguments of `register_pytree_node` for a cache whose keys and values are in layers."""
    from .dynamic_cache_pytree import flatten, unflatten

    return _node(flatten, unflatten)


def _node(
    flatten_attention: Callable[[Any], tuple[list[Any], Any]], unflatten_attention: Callable[[Any, Any], Any]
) -> dict[str, Any]:
    def flatten(cache: Any) -> tuple[list[Any], MiniMaxLayout]:
        """Return the leaves and the layout."""
        states = getattr(cache, _STATES)
        leaves, attention = flatten_attention(_without_states(cache))
        layout, rest = MiniMaxLayout(tuple(map(_is_filled, states)), attention), iter(leaves)
        return [states[index] if name == _STATE else next(rest) for index, name in _places(layout)], layout

    def unflatten(leaves: Iterable[Any], layout: MiniMaxLayout) -> Any:
        """Return a cache with the leaves and the layout."""
        from transformers.models.minimax.modeling_minimax import MiniMaxCache

        named = list(zip(_places(layout), leaves, strict=True))
        states = {index: leaf for (index, name), leaf in named if name == _STATE}
        cache = MiniMaxCache()
        rest = [leaf for (_, name), leaf in named if name != _STATE]
        vars(cache).update(vars(unflatten_attention(rest, layout.attention)))
        # Upstream has an empty list where a layer has no state.
        setattr(cache, _STATES, [states.get(index, []) for index in range(len(layout.filled))])
        return cache

    return cache_node("MiniMaxCache", flatten, unflatten)


def _without_states(cache: Any) -> Any:
    """Return the part that is a `DynamicCache`: its layout must hold no state, because torch copies layouts."""
    from transformers import DynamicCache

    attention = DynamicCache.__new__(DynamicCache)
    vars(attention).update({name: value for name, value in vars(cache).items() if name != _STATES})
    return attention


def _is_filled(state: Any) -> bool:
    return not isinstance(state, list)


def _places(layout: MiniMaxLayout) -> Iterator[tuple[int, str]]:
    """Yield layer and name of each leaf."""
    return ((index, name) for index, names in enumerate(layout.layers) for name in names)


_REASON = "The cache of MiniMax-Text, keys and values beside states, cannot be an input or an output of a graph."

SPECS = variants(
    {
        "id": "minimax-cache-pytree",
        "targets": (f"pytree({_MODULE}:MiniMaxCache)",),
        "reason": _REASON,
        "upstream": (source("models/minimax/modeling_minimax.py", "v5.23.0"),),
        "proofs": ("minimax",),
        "defect": (r"self\.linear_cache\b",),
        "kind": "pytree",
    },
    {
        "transformers>=4.53,<4.54": {"replacement": f"{__name__}:node_of_minimax_list_cache"},
        "transformers>=4.54": {"replacement": f"{__name__}:node_of_minimax_layer_cache"},
    },
)
