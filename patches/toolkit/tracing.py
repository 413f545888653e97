"""Is this call being traced? The patches leave ordinary eager calls to the originals."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_IS_LEFT_ALONE: ContextVar[bool] = ContextVar("is_left_alone", default=False)


@contextmanager
def left_alone() -> Iterator[None]:
    """Make `is_traced` say no: the code of a model is recorded as it is, since what it asks for is known."""
    token = _IS_LEFT_ALONE.set(True)
    try:
        yield
    finally:
        _IS_LEFT_ALONE.reset(token)


def is_traced(tensor: Any) -> bool:
    """Say whether `tensor` is met while `torch.export`, `torch.compile` or `torch.jit.trace` records a graph."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    # Dynamo, which knows the answer to the first question, does not trace the second.
    if not torch.compiler.is_dynamo_compiling() and _IS_LEFT_ALONE.get():
        return False
    return isinstance(tensor, FakeTensor) or torch.compiler.is_compiling() or torch.jit.is_tracing()
