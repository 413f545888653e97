"""Caches with one list or dictionary of tensors for each kind, by layer: flatten and unflatten.

What a layer has not is `None`, an empty list or an empty tensor, as upstream's class has it.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._pytree_node import cache_node


@dataclass(frozen=True)
class StatesLayout:
    """What such a cache is besides its tensors.

    Attributes:
        layers: names of the leaves of each layer.
        blank: the containers by attribute, without the tensors.
        state: the other attributes, by reference.
    """

    layers: tuple[tuple[str, ...], ...]
    blank: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    state: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


def node_of_state_lists(
    place: str, places: Mapping[str, str], without: Callable[[Any, int], Iterable[str]] = lambda cache, index: ()
) -> dict[str, Any]:
    """Return the arguments of `torch.utils._pytree.register_pytree_node` for a cache.

    Args:
        place: its class, as `module:name`.
        places: the attribute for each kind of leaf, in the order of the leaves of a layer.
        without: returns the kinds of which a layer has tensors that nobody reads.
    """
    module, _, name = place.partition(":")

    def flatten(cache: Any) -> tuple[list[Any], StatesLayout]:
        """Return the leaves and the layout."""
        held = {kind: getattr(cache, attribute) for kind, attribute in places.items()}
        layers = [
            {kind: leaf for kind, leaf in _leaves(held, index) if kind not in without(cache, index)}
            for index in range(max(map(len, held.values())))
        ]
        blank = {places[kind]: _blank(container) for kind, container in held.items()}
        # A symbol belongs to its trace: a context that holds one cannot be copied. No length is read from it.
        others = {name: value for name, value in vars(cache).items() if name not in blank}
        state = {name: value for name, value in others.items() if type(value).__name__ != "SymInt"}
        return [leaf for layer in layers for leaf in layer.values()], StatesLayout(
            tuple(map(tuple, layers)), blank, state
        )

    def unflatten(leaves: Iterable[Any], layout: StatesLayout) -> Any:
        """Return a cache with the leaves and the layout."""
        cls = getattr(importlib.import_module(module), name)
        cache, rest = cls.__new__(cls), iter(leaves)
        vars(cache).update(layout.state)
        for attribute, container in layout.blank.items():
            setattr(cache, attribute, container.copy())
        for index, names in enumerate(layout.layers):
            for kind in names:
                getattr(cache, places[kind])[index] = next(rest)
        return cache

    return cache_node(name, flatten, unflatten)


def _leaves(held: Mapping[str, Any], index: int) -> Iterator[tuple[str, Any]]:
    for kind, container in held.items():
        if index < len(container) and _is_filled(container[index]):
            yield kind, container[index]


def _is_filled(item: Any) -> bool:
    """Say whether something is a leaf; leaves of another kind than tensors (shapes, names) have no axes to count."""
    return item is not None and not isinstance(item, list) and getattr(item, "ndim", 3) > 2


def _blank(container: Any) -> Any:
    if isinstance(container, dict):
        return {index: None if _is_filled(item) else item for index, item in container.items()}
    return [None if _is_filled(item) else item for item in container]
