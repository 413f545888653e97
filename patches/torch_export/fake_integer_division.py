"""The quotient of two integers is an integer to torch while it captures a model.

Symptom: DeBERTa-v2, SEW-D: `node.meta['val'].dtype(torch.int64) does not agree with type promotion rule(torch.float32)`
from the ONNX exporter; from `torch.export` a program whose types are wrong behind the quotient.
Cause: where sizes are symbolic, fake tensors are divided by a short cut, which finds the type of a quotient as that
of a sum.
What is done: the short cut is for operands of which one is no integer; the others take the long way.
Can go: with torch 2.7; torch 2.8 gives the short cut the right rule (read in 2.7.1 and 2.8.0).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_get_fast_op_impls(original: Callable[..., Any]) -> Callable[..., Any]:
    """Take the short cut for the division of integers out of `get_fast_op_impls`."""
    known: dict[Any, Any] = {}

    def get_fast_op_impls() -> Any:
        if not known:
            import torch

            found, division = original(), torch.ops.aten.div.Tensor
            known.update({**found, division: _true_division(found[division])})
        return known

    return get_fast_op_impls


def _true_division(short: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    def divide(mode: Any, *args: Any, **kwargs: Any) -> Any:
        if not all(_is_integer(value) for value in args):
            return short(mode, *args, **kwargs)
        with mode:
            return torch._refs.div(*args, **kwargs)

    return divide


def _is_integer(value: Any) -> bool:
    import torch

    if isinstance(value, torch.Tensor):
        return not (value.is_floating_point() or value.is_complex())
    return isinstance(value, (int, torch.SymInt))


SPECS = (
    PatchingSpec(
        id="torch-fake-integer-division",
        targets=("torch._subclasses.fake_tensor:get_fast_op_impls",),
        replacement=f"{__name__}:patch_get_fast_op_impls",
        requires=("torch>=2.6,<2.8",),
        reason="Fake tensors divide integers to an integer, where sizes are symbolic: no file, or wrong types.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.7.1/torch/_subclasses/fake_impls.py",
            "https://github.com/pytorch/pytorch/blob/v2.8.0/torch/_subclasses/fake_impls.py",
        ),
        proofs=("deberta_v2", "sew_d"),
        kind="wrap",
    ),
)
