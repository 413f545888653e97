"""Is this call being traced? The patches leave ordinary eager calls to the originals."""

from typing import Any


def is_traced(tensor: Any) -> bool:
    """Say whether `tensor` is met while `torch.export`, `torch.compile` or `torch.jit.trace` records a graph."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor) or torch.compiler.is_compiling() or torch.jit.is_tracing()
