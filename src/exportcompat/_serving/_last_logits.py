"""Logits of the last token alone: what generation reads, while those of the others are much of a long first call."""

from typing import Any

from ._graph import Writer, size

_LOGITS = "logits"
_BY_ELEMENT = ("Cast", "Mul", "Div", "Add", "Tanh")
"""What may follow the product that makes the logits, such as a soft cap."""


def keep_last(model: Any) -> int:
    """Multiply the last token alone by the weights of the vocabulary.

    Args:
        model: an `onnx_ir.Model` of a decoder; it is changed.

    Returns:
        1, or 0 if the logits are not a product, and elements of it, that nothing else reads.
    """
    import numpy as np

    logits = next((value for value in model.graph.outputs if value.name == _LOGITS), None)
    product = None if logits is None else _product(logits)
    if product is None:
        return 0
    writer, states = Writer(model.graph, product), product.inputs[0]
    last = writer.node("Gather", [states, writer.constant(np.array([-1], np.int64))], attributes={"axis": 1})
    last.dtype = states.dtype
    product.replace_input_with(0, last)
    _shorten(logits, last)
    return 1


def _product(logits: Any) -> Any:
    """Return the `MatMul` that makes the logits."""
    value = logits
    while (node := value.producer()) is not None and not node.domain:
        computed = [item for item in node.inputs if not _is_constant(item)]
        if len(computed) != 1 or (value is not logits and (value.is_graph_output() or len(value.uses()) > 1)):
            return None
        if node.op_type == "MatMul":
            return node if computed[0] is node.inputs[0] and size(value, 2, 3) is not None else None
        if node.op_type not in _BY_ELEMENT:
            return None
        value = computed[0]
    return None


def _is_constant(value: Any) -> bool:
    """Say whether a value is the same in each call: weights that tokens are looked up in are transposed for logits."""
    node = value.producer()
    if node is None:
        return value.const_value is not None
    return bool(node.inputs) and all(item is not None and _is_constant(item) for item in node.inputs)


def _shorten(value: Any, until: Any) -> None:
    """Set the length of everything between `until` and `value` to that of one token."""
    import onnx_ir as ir

    while value is not until:
        if value.shape is not None:
            value.shape = ir.Shape([value.shape[0], 1, value.shape[2]])
        value = next(item for item in value.producer().inputs if not _is_constant(item))
