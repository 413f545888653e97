"""Cases that go by the TorchScript exporter, `torch.onnx.export(dynamo=False)`, as optimum-onnx does.

That exporter takes and returns tensors alone, so a cache is taken apart around the model.
"""

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from exportcompat import apply_patches
from exportcompat._verification import LOGITS, TOKEN_AXES

from ._decoder import Decoder, Sample
from ._flat_inputs import pytree_specs, tensor_axes


class Flat(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """A decoder that takes and returns tensors, in the order of torch's pytrees.

    Args:
        decoder: the decoder.
        structure: how its keyword arguments are put together from tensors.
    """

    def __init__(self, decoder: Decoder, structure: Any) -> None:
        super().__init__()
        self.model = decoder.model
        self._structure, self._argument = structure, decoder.past_argument

    def forward(self, *tensors: Any) -> tuple[Any, ...]:
        """Return the logits, `(batch, sequence, vocabulary)`, and the tensors of the cache."""
        output = self.model(**pytree.tree_unflatten(list(tensors), self._structure))
        return output[LOGITS], *pytree.tree_leaves(output[self._argument])


def export_script(decoder: Decoder, path: Path, _: Collection[str]) -> None:
    """Export by `torch.onnx.export(dynamo=False)`.

    Without patches too, caches are taken apart by our nodes: every exporter has some of its own.

    Args:
        decoder: the model with its calls.
        path: the file.
    """
    with apply_patches(include=pytree_specs()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = decoder.sample(Sample())
        tensors, structure = pytree.tree_flatten(inputs)
        names = decoder.names(inputs)
        torch.onnx.export(
            Flat(decoder, structure),
            tuple(tensors),
            str(path),
            input_names=names[0],
            output_names=names[1],
            dynamic_axes=_dynamic_axes(decoder.dynamic_shapes(inputs), *names),
            dynamo=False,
        )


def _dynamic_axes(shapes: Any, inputs: list[str], outputs: list[str]) -> dict[str, dict[int, str]]:
    """Return the axes of each input and output by its name; a cache that is returned has other sizes."""
    axes = {name: dict(leaf) for name, leaf in zip(inputs, tensor_axes(shapes), strict=True) if leaf}
    grown = dict(zip(outputs[1:], (name for name in inputs if "." in name), strict=True))
    for output, name in grown.items():
        axes[output] = {axis: f"{output}_{axis}" for axis in axes.get(name, ())}
    return {**axes, LOGITS: TOKEN_AXES}
