"""Functions that are added to the exporter's table of operators."""

from collections.abc import Callable
from typing import Any


def with_function(original: Callable[..., Any], find: Callable[[], tuple[Any, Any]]) -> Callable[..., Any]:
    """Return `ONNXRegistry.from_torchlib` with one function more, where the table has none for its operator.

    Args:
        original: the method.
        find: returns the operator and the function, once torch and onnxscript are imported.
    """

    def from_torchlib(cls: Any, *args: Any, **kwargs: Any) -> Any:
        registry, (operator, function) = original(cls, *args, **kwargs), find()
        if not registry.is_registered(operator):
            registry.register_op(operator, function)
        return registry

    return from_torchlib
