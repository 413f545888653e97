"""Answer some calls of torch functions otherwise while a method of upstream is traced."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from .tracing import is_traced


def run_under(mode: Callable[[], TorchFunctionMode], original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that runs under a new `mode` if one of its arguments is traced."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = (item for item in (*args, *kwargs.values()) if isinstance(item, Tensor))
        if not any(map(is_traced, tensors)):
            return original(self, *args, **kwargs)
        with mode():
            return original(self, *args, **kwargs)

    return method


class Override(TorchFunctionMode):  # type: ignore[misc,unused-ignore]  # torch has no types for it in every release.
    """Answer calls of some torch functions by handlers, and leave all others alone.

    Args:
        handlers: by function, such as `torch.split`; a handler takes the function itself, then its arguments.
    """

    def __init__(self, handlers: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
        super().__init__()
        self._handlers = handlers

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handler = self._handlers.get(func)
        return func(*args, **(kwargs or {})) if handler is None else handler(func, *args, **(kwargs or {}))
