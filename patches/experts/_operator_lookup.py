"""Experts of transformers 5.0: each class looks up an operator, around the loop that it brings along."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from ._dense_loop import patch_expert_loop


def patch_expert_class(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of such a class go through all experts while it is traced.

    `torch.jit.trace` gets the loop in any case: the TorchScript exporter has none of the operators.
    """
    by_operator, by_loop = patch_expert_loop(original), patch_expert_loop(inspect.unwrap(original))

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (by_loop if torch.jit.is_tracing() else by_operator)(self, *args, **kwargs)

    return forward
