"""The structure of an argument: its tensors by name, and how to put it together again when no registration is left.

torch keeps in a `TreeSpec` only the type of each node, and looks its functions up when the tree is built. What is
observed inside `apply_patches()` is needed after it, so a `Tree` keeps the functions themselves. Which classes have
any is decided by the pytree specs of `patches/` alone.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from exportcompat._extras import require

_MAPPINGS = (dict, OrderedDict, defaultdict)


@dataclass(frozen=True)
class Tree:
    """A leaf, or a node with its children.

    Attributes:
        path: names from the argument to here, with dots between them.
        children: None for a leaf.
        kind: class of a node.
        rebuild: makes the node from its children.
    """

    path: str
    children: tuple["Tree", ...] | None = None
    kind: type | None = None
    rebuild: Callable[[list[Any]], Any] | None = None

    def leaves(self) -> Iterator[str]:
        """Yield the paths of the leaves, in the order of torch."""
        if self.children is None:
            yield self.path
        for child in self.children or ():
            yield from child.leaves()

    def build(self, leaf: Callable[[str], Any]) -> Any:
        """Return an object of this structure, given what is at each path."""
        if self.children is None:
            return leaf(self.path)
        children = [child.build(leaf) for child in self.children]
        return children if self.rebuild is None else self.rebuild(children)

    def shapes(self, leaf: Callable[[str], Any]) -> Any:
        """Return the structure in which `torch.export` wants dynamic shapes: classes of others are lists."""
        if self.children is None:
            return leaf(self.path)
        children = [child.shapes(leaf) for child in self.children]
        if self.kind in _MAPPINGS:
            return dict(zip((child.key for child in self.children), children, strict=True))
        return tuple(children) if self.kind is tuple else children

    @property
    def key(self) -> str:
        """The last of the names."""
        return self.path.rpartition(".")[2]


def flatten(path: str, value: Any) -> tuple[Tree, dict[str, Any]]:
    """Return the structure of `value` and its leaves by path."""
    found = _children(value)
    if found is None:
        return Tree(path), {path: value}
    keys, children, kind, rebuild = found
    parts = [flatten(f"{path}.{key}" if path else key, child) for key, child in zip(keys, children, strict=True)]
    leaves = {name: leaf for _, part in parts for name, leaf in part.items()}
    return Tree(path, tuple(tree for tree, _ in parts), kind, rebuild), leaves


def _children(value: Any) -> tuple[list[str], list[Any], type, Callable[[list[Any]], Any]] | None:
    """Return names, children, class and builder of a node; None for a leaf."""
    pytree = require("torch.utils._pytree", "torch")
    children, spec = pytree.tree_flatten(value, is_leaf=lambda node: node is not value)
    if spec.type is None:
        return None
    node, context = pytree.SUPPORTED_NODES[spec.type], spec.context
    keys = _keys(value, children, node)
    order = _order(value, keys)
    back = [order.index(place) for place in range(len(order))]
    return (
        [keys[place] for place in order],
        [children[place] for place in order],
        spec.type,
        lambda parts: node.unflatten_fn([parts[place] for place in back], context),
    )


def _order(value: Any, keys: Sequence[str]) -> list[int]:
    """Return the places of the children in the order that a graph has.

    Eager adds hidden states to an output that it has already made, behind all else. A trace takes it apart and makes it
    anew, which puts them where the class has their field.
    """
    places = range(len(keys))
    if not (isinstance(value, Mapping) and is_dataclass(value)):
        return list(places)
    ranks = {field.name: rank for rank, field in enumerate(fields(value))}
    return sorted(places, key=lambda place: ranks.get(keys[place], len(ranks)))


def _keys(value: Any, children: list[Any], node: Any) -> list[str]:
    if isinstance(value, Mapping) and len(value) == len(children):
        return [str(key) for key in value]
    if node.flatten_with_keys_fn is None:
        return [str(index) for index in range(len(children))]
    return [_text(key) for key, _ in node.flatten_with_keys_fn(value)[0]]


def _text(key: Any) -> str:
    """Return the bare name of a key of torch's pytrees (of a mapping, a sequence or an attribute)."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def build_all(trees: Mapping[str, Tree], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object of each structure, given what is at each path."""
    return {name: tree.build(known.__getitem__) for name, tree in trees.items()}
