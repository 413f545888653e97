"""Caches as pytree nodes: what those have in common whose layout names the leaves of each layer."""

from collections.abc import Callable
from typing import Any


def cache_node(
    name: str, flatten: Callable[[Any], tuple[list[Any], Any]], unflatten: Callable[[Any, Any], Any], **others: Any
) -> dict[str, Any]:
    """Return the arguments of `torch.utils._pytree.register_pytree_node` for a cache.

    Args:
        name: name of the class.
        flatten: returns the leaves and a layout; `layout.layers` has the names of the leaves of each layer.
        unflatten: makes the cache from both.
        others: more arguments.
    """

    def flatten_with_keys(cache: Any) -> tuple[list[tuple[Any, Any]], Any]:
        from torch.utils._pytree import MappingKey

        leaves, layout = flatten(cache)
        names = [f"{index}.{name}" for index, layer in enumerate(layout.layers) for name in layer]
        return [(MappingKey(name), leaf) for name, leaf in zip(names, leaves, strict=True)], layout

    return {
        "serialized_type_name": f"exportcompat.{name}",
        "flatten_fn": flatten,
        "unflatten_fn": unflatten,
        "flatten_with_keys_fn": flatten_with_keys,
        **others,
    }
