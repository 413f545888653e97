"""The shapes of keyword arguments are given to other arguments when their order is not that of the signature.

Symptom: `KeyError: 1` for a model whose `forward` takes the cache before the mask (BLOOM), exported with the mask
before the cache.
Cause: when torch collects the range of each axis it puts the arguments into the order of the signature, while the
graph has them in the order of the call.
What is done: that step is given the arguments in the order of the graph.
Can go: with torch 2.7; torch 2.8 does so itself (run on 2.6.0, 2.7.1 and 2.8.0).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

from .renamed_arguments import lift_old_names


def patch_combine_args(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_combine_args` return the arguments as the graph has them."""

    def _combine_args(f: Any, args: Any, kwargs: Any, *rest: Any, **others: Any) -> Any:
        combined = lift_old_names(original(f, args, kwargs, *rest, **others), f)
        if not isinstance(combined, dict):
            return combined
        given = [name for name in kwargs or {} if name in combined]
        # What is behind `**` is one argument of the signature, the last.
        behind = list(combined)[-1:] if len(given) < len(kwargs or {}) else []
        first = [name for name in combined if name not in (*given, *behind)]
        return {name: combined[name] for name in (*first, *given, *behind)}

    return _combine_args


SPECS = (
    PatchingSpec(
        id="torch-export-argument-order",
        targets=("torch.export._trace:_combine_args",),
        replacement=f"{__name__}:patch_combine_args",
        requires=("torch>=2.6,<2.8",),
        reason="Keyword arguments in another order than the signature's get the shapes of each other: no graph.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.7.1/torch/export/_trace.py",
            "https://github.com/pytorch/pytorch/blob/v2.8.0/torch/export/_trace.py",
        ),
        proofs=("bloom",),
        kind="wrap",
    ),
)
