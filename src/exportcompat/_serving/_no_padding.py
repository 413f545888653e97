"""`GroupQueryAttention` without a mask: for text without padding it knows by itself which tokens are before.

What a mask is, is found out by running the nodes that make it, for calls without padding: where it lets each token see
those before it, or the last ones of a window, the operator needs none, and all of these nodes go. In their place one
number is looked up at a place that the attention mask tells, so that ONNX Runtime refuses a call with padding.
"""

from collections.abc import Callable
from typing import Any

from ._graph import Writer, replace
from ._grouped_query import MICROSOFT, group_queries
from ._part import Part
from ._tidy import tidy

_MASK, _TOKENS = "attention_mask", "input_ids"
_LENGTHS, _TOTAL, _BIAS = 5, 6, 10
"""Inputs of the operator."""

_LONG = 2**20
"""A past that is longer than any window."""

_CALLS = ((0, 1), (0, 9), (5, 1), (5, 4))
"""Past and new tokens of calls whose masks are looked at."""


def attend_without_masks(model: Any) -> int:
    """Leave out masks that only hide later tokens and those before a window, and return of how many operators.

    Args:
        model: an `onnx_ir.Model`; it is changed.
    """
    mask = next((value for value in model.graph.inputs if value.name == _MASK), None)
    if mask is None:
        return 0
    group_queries(model)
    nodes = [node for node in model.graph if node.domain == MICROSOFT and node.op_type == "GroupQueryAttention"]
    biases = {id(node): _bias(node) for node in nodes}
    windows = {id(bias): _window(model, bias) for bias in biases.values() if bias is not None}
    found = [(node, window) for node in nodes if (window := windows.get(id(biases[id(node)])))]
    for node, window in found:
        _unmask(model, node, mask, window)
    if found:
        tidy(model)
    return len(found)


def _bias(node: Any) -> Any:
    return node.inputs[_BIAS] if len(node.inputs) > _BIAS else None


def _window(model: Any, bias: Any) -> int | None:
    """Return how many tokens a mask lets each see, -1 for all before it, and None for any other mask."""
    run = _runner(model, bias)
    if run is None:
        return None
    try:
        count = int(_seen(run, _LONG, 1).sum())
        is_window = count <= _LONG
        calls = (*_CALLS, *([(count, 3)] if is_window else []))
        alike = all((_seen(run, *call) == _wanted(*call, count)).all() for call in calls)
    except Exception:
        # A mask of which the sizes are bound to others, or that is no mask at all.
        return None
    return (count if is_window else -1) if alike else None


def _runner(model: Any, value: Any) -> Callable[[int, int], Any] | None:
    """Return what computes a value for a call without padding; None if it is computed from more than sizes."""
    import numpy as np

    part = Part(model, value, _MASK)
    if not part.is_alone():
        return None
    session = part.session()

    def run(past: int, new: int) -> Any:
        given: dict[str, Any] = {_MASK: np.ones((1, past + new), np.int64)}
        given[_TOKENS] = np.zeros((1, new), np.int64)
        return part.run(session, given, past)

    return run


def _seen(run: Callable[[int, int], Any], past: int, new: int) -> Any:
    """Return which tokens a bias of a single sequence lets each token see, `(new, past + new)`."""
    import numpy as np

    bias = run(past, new)
    if not np.isin(bias, (0, np.finfo(bias.dtype).min)).all():
        raise ValueError("a bias that is no mask")
    return np.broadcast_to(bias, (1, 1, new, past + new))[0, 0] == 0


def _wanted(past: int, new: int, count: int) -> Any:
    """Return which tokens each one sees that sees the last `count`, itself included."""
    import numpy as np

    places = np.arange(past + new)
    behind = places[past:, None] - places[None]
    return (behind >= 0) & (behind < count)


def _unmask(model: Any, node: Any, mask: Any, window: int) -> None:
    """Take the mask from an operator, and the zeroing of rows that see nothing: without padding there are none."""
    writer = Writer(model.graph, node)
    lengths, total = _lengths(writer, mask)
    for index, value in ((_LENGTHS, lengths), (_TOTAL, total), (_BIAS, None)):
        node.replace_input_with(index, value)
    if window > 0:
        import onnx_ir as ir

        node.attributes["local_window_size"] = ir.AttrInt64("local_window_size", window)
    for use in list(node.outputs[0].uses()):
        if use.node.op_type == "Where" and use.idx == 1 and _is_true(model, use.node.inputs[0]):
            replace(use.node.outputs[0], node.outputs[0])


def _is_true(model: Any, condition: Any) -> bool:
    """Say whether a condition holds for everything in calls without padding."""
    try:
        run = _runner(model, condition)
        return run is not None and all(run(*call).all() for call in _CALLS)
    except Exception:
        return False


def _lengths(writer: Writer, mask: Any) -> tuple[Any, Any]:
    """Return the place of the last token for each sequence, and the length of the text; padding is refused."""
    import numpy as np

    total = writer.node("Cast", [writer.node("Shape", [mask], attributes={"start": 1, "end": 2})], attributes={"to": 6})
    least = writer.node("ReduceMin", [mask], attributes={"keepdims": 0})
    missing = writer.node("Sub", [writer.constant(np.array(1, np.int64)), least])
    # There is one element, so the place 1 is refused.
    zero = writer.node("Gather", [writer.constant(np.array([-1], np.int32)), missing])
    last = writer.node("Add", [total, zero])
    batch = writer.node("Shape", [mask], attributes={"start": 0, "end": 1})
    return writer.node("Expand", [last, batch]), writer.node("Squeeze", [total])
