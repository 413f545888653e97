"""The caches of Mamba, FalconMamba, Mamba2, Jamba, Bamba and Granite MoE hybrid to 5.4 are no pytree nodes.

Symptom: `torch.export` refuses a `MambaCache`, `FalconMambaCache`, `Mamba2Cache` or `HybridMambaAttentionDynamicCache`
among the inputs.
What is done: inside the scope the leaves are, layer by layer, `0.conv_state` and `0.recurrent_state`, or `0.key` and
`0.value` for attention. What else the cache has (sizes, `has_previous_state`) is kept for a round trip, and is no part
of what is compared.
Can go: with transformers 5.4; from 5.5 on these models have a `DynamicCache` (see
`dynamic-cache-pytree`; run on 5.4.0 and 5.5.0).
"""

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from exportcompat.registry import PatchingSpec

from ._pytree_node import cache_node

_PLACES = {"conv_state": "conv_states", "recurrent_state": "ssm_states", "key": "key_cache", "value": "value_cache"}
_COPIES: MutableMapping[Any, dict[str, Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class StatesLayout:
    """What such a cache is besides its tensors.

    Attributes:
        cls: module and name of its class.
        layers: names of the leaves of each layer.
        state: the other attributes, by reference.
        stacked: the states of all layers are one tensor.
    """

    cls: tuple[str, str]
    layers: tuple[tuple[str, ...], ...]
    state: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    stacked: bool = field(default=False, compare=False)


def node_of_mamba_cache(original: Any) -> dict[str, Any]:
    """Return the arguments of `torch.utils._pytree.register_pytree_node` for the cache of Mamba."""
    return cache_node("MambaCache", flatten, unflatten)


def node_of_falcon_mamba_cache(original: Any) -> dict[str, Any]:
    """Return the arguments of `register_pytree_node` for the cache of FalconMamba."""
    return cache_node("FalconMambaCache", flatten, unflatten)


def node_of_mamba2_cache(original: Any) -> dict[str, Any]:
    """Return the arguments of `register_pytree_node` for the cache of Mamba2."""
    return cache_node("Mamba2Cache", flatten, unflatten)


def node_of_jamba_cache(original: Any) -> dict[str, Any]:
    """Return the arguments of `register_pytree_node` for the cache of Jamba."""
    return cache_node("HybridMambaAttentionDynamicCache", flatten, unflatten)


def node_of_bamba_cache(original: Any) -> dict[str, Any]:
    """Return those for the cache of Bamba; torch wants another name than that of Jamba's class."""
    return cache_node("BambaDynamicCache", flatten, unflatten)


def node_of_granite_hybrid_cache(original: Any) -> dict[str, Any]:
    """Return the arguments of `register_pytree_node` for the cache of Granite MoE hybrid."""
    return cache_node("GraniteMoeHybridDynamicCache", flatten, unflatten)


def flatten(cache: Any) -> tuple[list[Any], StatesLayout]:
    """Return the leaves and the layout."""
    import torch

    layers = [dict(_tensors(cache, index)) for index in _indices(cache)]
    state = {name: value for name, value in vars(cache).items() if name not in _PLACES.values()}
    cls = (type(cache).__module__, type(cache).__qualname__)
    stacked = isinstance(cache.conv_states, torch.Tensor)
    layout = StatesLayout(cls, tuple(tuple(layer) for layer in layers), state, stacked)
    return [leaf for layer in layers for leaf in layer.values()], layout


def unflatten(leaves: Iterable[Any], layout: StatesLayout) -> Any:
    """Return a cache with the leaves and the layout."""
    import sys

    cls = getattr(sys.modules[layout.cls[0]], layout.cls[1])
    cache, rest = cls.__new__(cls), iter(leaves)
    vars(cache).update(layout.state)
    layers = [{name: next(rest) for name in names} for names in layout.layers]
    has_attention = any("key" in names for names in layout.layers) or hasattr(cls, "update")
    for name, place in _PLACES.items():
        if has_attention or name not in ("key", "value"):
            setattr(cache, place, _gathered([layer.get(name) for layer in layers], layers, layout))
    return cache


def _indices(cache: Any) -> range:
    return range(len(cache.conv_states))


def _tensors(cache: Any, index: int) -> Iterator[tuple[str, Any]]:
    """Yield name and tensor of what a layer has; two axes, one of them empty, stand for nothing."""
    for name, place in _PLACES.items():
        if hasattr(cache, place):
            leaf = _unstacked(cache, place)[index]
            if getattr(leaf, "ndim", 3) > 2:
                yield name, leaf


def _unstacked(cache: Any, place: str) -> Any:
    """Return the tensors of one kind by layer; where upstream stacks them, copies, the same ones each time.

    Views of one tensor cannot have a dynamic batch, and torch knows the dynamic axes of a leaf by its identity.
    """
    import torch

    whole = getattr(cache, place)
    if not isinstance(whole, torch.Tensor):
        return whole
    known = _COPIES.setdefault(cache, {})
    if place not in known or known[place][0] != (id(whole), whole._version):
        known[place] = (id(whole), whole._version), [part.clone() for part in whole]
    return known[place][1]


def _gathered(found: list[Any], layers: list[dict[str, Any]], layout: StatesLayout) -> Any:
    """Return the tensors of one kind by layer: stacked in eager mode where upstream stacks them, else a list."""
    import torch

    from exportcompat.patches.toolkit.tracing import is_traced

    can_stack = layout.stacked and all(type(item) is torch.Tensor and not is_traced(item) for item in found)
    if can_stack:
        return torch.stack(found)
    return [_nothing(layer) if item is None else item for item, layer in zip(found, layers, strict=True)]


def _nothing(layer: dict[str, Any]) -> Any:
    """Return what stands for nothing, an empty tensor with the batch of the layer's others."""
    other = next(iter(layer.values()))
    # Leaves of another kind than tensors (shapes, names) have no batch.
    return other.new_empty(other.shape[0], 0) if hasattr(other, "new_empty") else None


_REASON = "The cache of a model with Mamba layers cannot be an input or an output of a graph."
_UPSTREAM = (
    "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/mamba/modeling_mamba.py",
    "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/jamba/modeling_jamba.py",
)
_MODELS = "transformers.models"


def _spec(cls: str, requires: str, proof: str) -> PatchingSpec:
    return PatchingSpec(
        id=f"{proof.replace('_', '-')}-cache-pytree",
        targets=(f"pytree({cls})",),
        replacement=f"{__name__}:node_of_{proof}_cache",
        requires=(requires, "torch>=2.6"),
        reason=_REASON,
        upstream=_UPSTREAM,
        proofs=(proof,),
        defect=(r"self\.conv_states\b", r"self\.ssm_states\b"),
        kind="pytree",
    )


SPECS = (
    _spec("transformers.cache_utils:MambaCache", "transformers>=4.44,<4.54", "mamba"),
    _spec(f"{_MODELS}.mamba.modeling_mamba:MambaCache", "transformers>=4.54,<5.5", "mamba"),
    _spec(f"{_MODELS}.falcon_mamba.modeling_falcon_mamba:FalconMambaCache", "transformers>=4.54,<5.5", "falcon_mamba"),
    _spec(f"{_MODELS}.mamba2.modeling_mamba2:Mamba2Cache", "transformers>=4.48,<5.5", "mamba2"),
    _spec(f"{_MODELS}.jamba.modeling_jamba:HybridMambaAttentionDynamicCache", "transformers>=4.44,<5.5", "jamba"),
    _spec(f"{_MODELS}.bamba.modeling_bamba:HybridMambaAttentionDynamicCache", "transformers>=4.48,<5.5", "bamba"),
    _spec(
        f"{_MODELS}.granitemoehybrid.modeling_granitemoehybrid:HybridMambaAttentionDynamicCache",
        "transformers>=4.52,<5.5",
        "granite_hybrid",
    ),
)
