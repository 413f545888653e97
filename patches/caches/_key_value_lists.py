"""`DynamicCache` of transformers to 4.53: a list of keys and a list of values, one tensor each for a layer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ._pytree_node import cache_node

_PAIR = ("key", "value")


@dataclass(frozen=True)
class ListLayout:
    """What such a cache is besides its tensors.

    Attributes:
        filled: for each layer, whether it has keys and values; models may skip layers.
    """

    filled: tuple[bool, ...]

    @property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """Names of the leaves of each layer."""
        return tuple(_PAIR if filled else () for filled in self.filled)


def node_of_list_cache(original: Any) -> dict[str, Any]:
    """Return the arguments of `torch.utils._pytree.register_pytree_node` for `DynamicCache`."""
    return cache_node(
        "DynamicCache",
        flatten,
        unflatten,
        to_dumpable_context=lambda layout: list(layout.filled),
        from_dumpable_context=lambda filled: ListLayout(tuple(filled)),
    )


def flatten(cache: Any) -> tuple[list[Any], ListLayout]:
    """Return the leaves, `(batch, kv_heads, past, head_dim)` each, and the layout."""
    pairs = list(zip(cache.key_cache, cache.value_cache, strict=True))
    layout = ListLayout(tuple(_is_filled(key) for key, _ in pairs))
    return [leaf for pair, filled in zip(pairs, layout.filled, strict=True) if filled for leaf in pair], layout


def _is_filled(key: Any) -> bool:
    """Say whether a layer has keys; what stands for a skipped one is `[]` or a tensor without axes to fill."""
    return not (isinstance(key, list) or getattr(key, "ndim", None) == 1)


def unflatten(leaves: Iterable[Any], layout: ListLayout) -> Any:
    """Return a cache with the leaves and the layout; its count of tokens is that of the first filled layer."""
    import torch
    from transformers import DynamicCache

    cache, rest = DynamicCache(), iter(leaves)
    for filled in layout.filled:
        cache.key_cache.append(next(rest) if filled else torch.tensor([]))
        cache.value_cache.append(next(rest) if filled else torch.tensor([]))
    first: Any = next((key for key, filled in zip(cache.key_cache, layout.filled, strict=True) if filled), None)
    # Leaves of another kind than tensors (shapes, names) have no length.
    cache._seen_tokens = first.shape[-2] if hasattr(first, "new_empty") else 0
    return cache
