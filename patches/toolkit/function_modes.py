"""Answer some calls of torch functions otherwise while a method of upstream is traced."""

from collections.abc import Callable
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
