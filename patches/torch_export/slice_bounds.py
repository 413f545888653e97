"""A slice that begins or ends at a symbolic size gets a size of its own.

Symptom: `Could not guard on data-dependent expression Ne(u0, 8)` for every decoder that cuts its mask to the length of
the keys, as transformers does to 4.57, and for encoder-decoders, whose decoder takes the states behind those that its
cache has.
Cause: each layer's past has a symbol of its own, and torch 2.10 no longer asks the sample how such a symbol compares
with the length of the mask. Where it cannot tell, the size of the slice is unknown, and attention asks for it.
What is done: a bound that is known not to be negative is the smaller one of itself and the size; a negative one counts
from the end and is 0 or more. That is what a slice means. The smaller one is written as the size less what is behind
the bound: of that torch can tell that it is not beyond the size, and of a minimum it cannot.
Can go: with torch 2.11; torch 2.12 does the same (run on 2.9.1, 2.10.0, 2.11.0 and 2.12.1).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_compute_slice_index(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_compute_slice_index` answer where the comparison with the size is open."""

    def _compute_slice_index(size: Any, index: Any) -> Any:
        found = original(size, index)
        return _clamped(size, index) if found is None else found

    return _compute_slice_index


def _clamped(size: Any, index: Any) -> Any:
    import torch
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    if guard_or_false(index >= 0):
        return size - torch.sym_max(size - index, 0)
    return torch.sym_max(index + size, 0) if guard_or_false(index < 0) else None


SPECS = (
    PatchingSpec(
        id="torch-slice-bounds",
        targets=("torch._subclasses.fake_impls:_compute_slice_index",),
        replacement=f"{__name__}:patch_compute_slice_index",
        requires=("torch>=2.10,<2.12",),
        reason="A mask that is cut to a symbolic length gets an unknown size, at which attention stops: no graph.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.11.0/torch/_subclasses/fake_impls.py",
            "https://github.com/pytorch/pytorch/blob/v2.12.0/torch/_subclasses/fake_impls.py",
        ),
        proofs=("llama", "bart_decoder"),
        kind="wrap",
    ),
)
