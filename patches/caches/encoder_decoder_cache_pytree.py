"""`EncoderDecoderCache` is no pytree node.

Symptom: `torch.export` refuses such a cache among the inputs.
What is done: inside the scope the leaves are, layer by layer, those of both caches, `0.decoder.key`, `0.decoder.value`,
`0.encoder.key`, `0.encoder.value`, `(batch, heads, length, head_dim)` each: the names that optimum reads. Each cache is
taken apart by its own spec. In eager mode `is_updated`, by which a layer knows that its cross-attention has been
filled, is kept for a round trip. In a graph it would be a branch of Python: a graph for the first step, which computes
keys and values of the encoder's states, and another for the later ones, which ignores the states. So while it is traced
no layer is updated, and each appends the keys and values of the states that it is given to those of the past. One graph
then does both: the first call has a past of length 0 and all states, later ones have the past and no states (length 0).
A program that was captured so can be saved and loaded: the layout is written as plain data.
`exportcompat.TextDecoder` leaves out the states that the past has, so that every call may have all of them.
Can go: when transformers registers the class itself with these leaves, and cross-attention appends.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from exportcompat.registry import PatchingSpec

from ._pytree_node import cache_node

_PARTS = {"decoder": "self_attention_cache", "encoder": "cross_attention_cache"}


@dataclass(frozen=True)
class PairLayout:
    """What such a cache is besides its tensors.

    Attributes:
        classes: of the two caches.
        layouts: of the two caches.
        builders: what puts the two caches together; what was observed in a scope is needed after it.
        state: the other attributes, by reference.
    """

    classes: tuple[type, type]
    layouts: tuple[Any, Any]
    builders: tuple[Any, Any] = field(compare=False, repr=False)
    state: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def layers(self) -> Iterator[list[str]]:
        """The names of the leaves of each layer."""
        for index in range(max(len(layers) for layers in self._layers)):
            pairs = zip(_PARTS, self._layers, strict=True)
            yield [f"{part}.{name}" for part, layers in pairs if index < len(layers) for name in layers[index]]

    @property
    def _layers(self) -> list[list[tuple[str, ...]]]:
        return [[tuple(layer) for layer in layout.layers] for layout in self.layouts]


def node_of_encoder_decoder_cache(original: Any) -> dict[str, Any]:
    """Return the arguments of `torch.utils._pytree.register_pytree_node` for `EncoderDecoderCache`."""
    return cache_node(
        "EncoderDecoderCache", flatten, unflatten, to_dumpable_context=_dumped, from_dumpable_context=_restored
    )


def flatten(cache: Any) -> tuple[list[Any], PairLayout]:
    """Return the leaves and the layout.

    Raises:
        TypeError: one of the two caches is of a class that is no node, or that somebody else has made one.
    """
    parts = [_part(cache, place) for place in _PARTS.values()]
    nodes = [_node_of(type(part)) for part in parts]
    found = [node.flatten_fn(part) for node, part in zip(nodes, parts, strict=True)]
    for part, (_, layout) in zip(parts, found, strict=True):
        if not hasattr(layout, "layers"):
            raise TypeError(f"spec 'encoder-decoder-cache-pytree': {type(part).__name__} is no node of exportcompat")
    rest = dict(zip(_PARTS, (iter(leaves) for leaves, _ in found), strict=True))
    classes, layouts = (type(parts[0]), type(parts[1])), (found[0][1], found[1][1])
    layout = PairLayout(classes, layouts, (nodes[0].unflatten_fn, nodes[1].unflatten_fn), _state(cache))
    return [next(rest[name.partition(".")[0]]) for layer in layout.layers for name in layer], layout


def unflatten(leaves: Iterable[Any], layout: PairLayout) -> Any:
    """Return a cache with the leaves and the layout."""
    from transformers.cache_utils import EncoderDecoderCache

    from exportcompat.patches.toolkit.tracing import is_traced

    names = [name.partition(".")[0] for layer in layout.layers for name in layer]
    named = list(zip(names, leaves, strict=True))
    cache = EncoderDecoderCache.__new__(EncoderDecoderCache)
    vars(cache).update({name: _others(value) for name, value in layout.state.items()})
    for (part, place), build, inner in zip(_PARTS.items(), layout.builders, layout.layouts, strict=True):
        setattr(cache, place, build([leaf for name, leaf in named if name == part], inner))
    # The structure of a program's results says nothing of its state.
    flags = layout.state.get("is_updated", dict.fromkeys(range(len(layout.layouts[1].layers)), True))
    is_in_graph = any(is_traced(leaf) for _, leaf in named)
    cache.is_updated = dict.fromkeys(flags, False) if is_in_graph else dict(flags)
    return cache


def _dumped(layout: PairLayout) -> list[Any]:
    """Return a layout as plain data: the classes and layouts of both caches, and which layers are updated."""
    parts = zip(layout.classes, layout.layouts, strict=True)
    return [
        [[cls.__module__, cls.__qualname__, _serializer(cls).to_dumpable_context(inner)] for cls, inner in parts],
        [[index, bool(flag)] for index, flag in layout.state.get("is_updated", {}).items()],
    ]


def _restored(data: list[Any]) -> PairLayout:
    """Return the layout that was written as plain data."""
    import importlib

    found = [(getattr(importlib.import_module(module), name), inner) for module, name, inner in data[0]]
    layouts = [_serializer(cls).from_dumpable_context(inner) for cls, inner in found]
    builders = [_node_of(cls).unflatten_fn for cls, _ in found]
    state = {"is_updated": dict(data[1])}
    return PairLayout((found[0][0], found[1][0]), (layouts[0], layouts[1]), (builders[0], builders[1]), state)


def _serializer(cls: type) -> Any:
    from torch.utils._pytree import SUPPORTED_SERIALIZED_TYPES

    return SUPPORTED_SERIALIZED_TYPES[cls]


def _part(cache: Any, place: str) -> Any:
    # Caches are modules to 4.48, and while it traces torch gives a stand-in of another class for a module's module.
    return {**vars(cache).get("_modules", {}), **vars(cache)}[place]


def _node_of(cls: type) -> Any:
    from torch.utils._pytree import SUPPORTED_NODES

    if cls not in SUPPORTED_NODES:
        raise TypeError(
            f"spec 'encoder-decoder-cache-pytree': an EncoderDecoderCache with a {cls.__name__} cannot be flattened, "
            "because that is no pytree node; use DynamicCache, or register the class yourself"
        )
    return SUPPORTED_NODES[cls]


def _state(cache: Any) -> dict[str, Any]:
    """Return the attributes besides the two caches, which are submodules of the cache in some releases."""
    state: dict[str, Any] = _others({name: _others(value) for name, value in vars(cache).items()})
    return state


def _others(value: Any) -> Any:
    """Return a copy of a dictionary without the two caches: torch copies contexts, and no traced tensor."""
    if not isinstance(value, dict):
        return value
    return {name: item for name, item in value.items() if name not in _PARTS.values()}


SPECS = (
    PatchingSpec(
        id="encoder-decoder-cache-pytree",
        targets=("pytree(transformers.cache_utils:EncoderDecoderCache)",),
        replacement=f"{__name__}:node_of_encoder_decoder_cache",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="An EncoderDecoderCache cannot be an input or an output of a graph, and would need two graphs.",
        upstream=("https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/cache_utils.py",),
        proofs=("whisper_decoder", "t5_decoder", "bart_decoder", "marian_decoder"),
        defect=(r"self\.self_attention_cache\b", r"self\.cross_attention_cache\b", r"self\.is_updated\b"),
        kind="pytree",
    ),
)
