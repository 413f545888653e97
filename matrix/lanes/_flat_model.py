"""A model that takes and returns tensors in a row, for exporters that know of nothing else."""

from typing import Any

from exportcompat.matrix.cases import Sample


def flat_model(subject: Any, sample: Sample | None = None) -> tuple[Any, tuple[Any, ...]]:
    """Return a module around a model, in which its cache is put together, and the tensors of a sample.

    Args:
        subject: a decoder or a `Forward`.
        sample: its shape; None for the usual one.
    """
    import torch
    from torch.utils import _pytree as pytree

    tensors, structure = pytree.tree_flatten(subject.sample(sample or Sample()))

    class Flat(torch.nn.Module):  # type: ignore[misc,unused-ignore]
        """Takes and returns the tensors of the model's arguments and results."""

        def __init__(self) -> None:
            super().__init__()
            self.model = subject.model

        def forward(self, *tensors: Any) -> tuple[Any, ...]:
            output = self.model(**pytree.tree_unflatten(list(tensors), structure))
            return tuple(pytree.tree_leaves(output))

    return Flat().eval(), tuple(tensors)
