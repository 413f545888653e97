"""Read a graph of onnx-ir backwards from a value, and put nodes into it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any


def producer(value: Any, operator: str) -> Any:
    """Return the node that makes `value` if it is this operator of ONNX, else None."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == operator and not node.domain else None


def attribute(node: Any, name: str, default: Any) -> Any:
    """Return what a node has for an attribute, or the default of its operator."""
    return node.attributes[name].value if name in node.attributes else default


def size(value: Any, axis: int, rank: int = 4) -> int | None:
    """Return the size along an axis if it is a number and there are `rank` axes."""
    shape = None if value is None else value.shape
    return shape[axis] if shape is not None and len(shape) == rank and isinstance(shape[axis], int) else None


def has_same_rows(one: Any, other: Any) -> bool:
    """Say whether the first two axes, batch and sequence, are known to have the same sizes: one number or name."""
    sizes = [[getattr(item, "value", item) for item in value.shape[:2]] for value in (one, other)]
    return sizes[0] == sizes[1] and None not in sizes[0]


def numbers(value: Any) -> list[Any] | None:
    """Return the elements of a constant, in one list; None for what is computed."""
    found = None if value is None else value.const_value
    return None if found is None else found.numpy().reshape(-1).tolist()


def is_swap(node: Any) -> bool:
    """Say whether a `Transpose` exchanges heads and sequence."""
    return node is not None and list(node.attributes["perm"].value) == [0, 2, 1, 3]


def depends(value: Any, sources: Collection[Any]) -> bool:
    """Say whether a value is computed from one of `sources`."""
    waiting, seen = [value], set()
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        if any(current is source for source in sources):
            return True
        seen.add(id(current))
        if current.producer() is not None:
            waiting.extend(current.producer().inputs)
    return False


class Writer:
    """Puts nodes before one node of a graph.

    Args:
        graph: an `onnx_ir.Graph`.
        before: the node that comes after all of them.
    """

    def __init__(self, graph: Any, before: Any) -> None:
        self._graph, self._before = graph, before

    def node(
        self,
        operator: str,
        inputs: Sequence[Any],
        like: Any = None,
        *,
        domain: str = "",
        outputs: int = 1,
        attributes: Mapping[str, Any] | None = None,
    ) -> Any:
        """Add a node; its first output, or all of them if there are several, has the type and shape of `like`."""
        import onnx_ir as ir

        made = ir.node(operator, list(inputs), attributes=dict(attributes or {}), domain=domain, num_outputs=outputs)
        if like is not None:
            made.outputs[0].dtype, made.outputs[0].shape = like.dtype, like.shape
        self._graph.insert_before(self._before, made)
        return made.outputs[0] if outputs == 1 else made.outputs

    def constant(self, array: Any) -> Any:
        """Add an initializer, or return the one that was added for an equal array."""
        import numpy as np
        import onnx_ir as ir

        array = np.ascontiguousarray(array)
        name = f"served_{array.dtype}_{'x'.join(map(str, array.shape))}_{'_'.join(map(str, array.reshape(-1)))}"
        known = self._graph.initializers.get(name)
        if known is not None:
            return known
        value = ir.Value(name=name, const_value=ir.tensor(array), shape=ir.Shape(array.shape))
        value.dtype = ir.DataType.from_numpy(array.dtype)
        self._graph.register_initializer(value)
        return value


def redirect(old: Any, new: Any) -> None:
    """Let every node that reads `old` read `new`; what the graph returns stays."""
    # onnx-ir before 0.1.12 has no method for it.
    for node, place in tuple(old.uses()):
        node.replace_input_with(place, new)


def replace(old: Any, new: Any) -> None:
    """Let everything read `new`, which a node makes, in place of `old`.

    An output of the graph keeps its name, type and shape.
    """
    name, is_output = old.name, old.is_graph_output()
    new.dtype, new.shape = old.dtype, old.shape
    redirect(old, new)
    if is_output:
        outputs = new.producer().graph.outputs
        for place in [place for place, value in enumerate(outputs) if value is old]:
            outputs[place] = new
        old.name, new.name = f"{name}_plain", name
