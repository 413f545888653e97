"""A copy of a file in half precision that computes in float32, with the same weights."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from exportcompat._extras import require

HALF = ("float16", "bfloat16")
"""The types of half precision, by the names that torch has for them."""

_TYPED_ATTRIBUTES = ("to", "dtype", "output_dtype")
"""Attributes that name the type of a result: those of `Cast`, and of operators that make a tensor."""


@contextmanager
def float32_copy(path: Path, shaken: int | None = None) -> Iterator[Path]:
    """Give the path of a copy of a file in which float32 stands for float16 and bfloat16; it is gone afterwards.

    Each weight has the value that it has in the file, or, where a seed is given, one that is off from it at random by
    up to what its type rounds off. A result differs from that of the file by what each operator in
    half precision rounds off. The smallest and the largest number of the type, which masks have, become those of
    float32, as in a copy of the model: they leave nothing of a score that they are added to.

    Args:
        path: the file.
        shaken: a seed, for weights that are off; None for those of the file.

    Raises:
        MissingExtraError: onnx-ir is not installed.
    """
    ir: Any = require("onnx_ir", "onnx")
    model = ir.load(path)
    widen = _Widening(ir, model, shaken)
    for graph in model.graphs():
        for value in (*graph.inputs, *graph.initializers.values()):
            widen.value(value)
    for function in model.functions.values():
        for value in function.inputs:
            widen.value(value)
    for container in (model.graph, *model.functions.values()):
        for node in ir.traversal.RecursiveGraphIterator(container):
            widen.node(node)
    with TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        ir.save(model, copy, external_data=f"{path.name}.data")
        yield copy


class _Widening:
    """Writes float32 where a model has half precision.

    Args:
        ir: the package `onnx_ir`.
        model: what is changed.
        shaken: a seed, for weights that are off by what their type rounds off.
    """

    def __init__(self, ir: Any, model: Any, shaken: int | None) -> None:
        self._ir, self._shaken = ir, shaken
        self._half = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
        values = (*model.graph.inputs, *model.graph.outputs, *model.graph.initializers.values())
        kinds = sorted({value.dtype for value in values if value.dtype in self._half})
        self._ends = [end for kind in kinds for end in _ends(kind.numpy())]

    def node(self, node: Any) -> None:
        """Change the types of a node's results, and of what it makes."""
        for value in node.outputs:
            self.value(value)
        for name, attribute in list(node.attributes.items()):
            if attribute.type == self._ir.AttributeType.TENSOR:
                node.attributes[name] = self._ir.AttrTensor(name, self._tensor(attribute.value))
            elif name in _TYPED_ATTRIBUTES and attribute.value in self._half:
                node.attributes[name] = self._ir.AttrInt64(name, self._ir.DataType.FLOAT.value)

    def value(self, value: Any) -> None:
        """Change the type of a value, and its numbers where they are known."""
        if value.dtype in self._half:
            value.dtype = self._ir.DataType.FLOAT
        if value.const_value is not None:
            value.const_value = self._tensor(value.const_value)

    def _tensor(self, tensor: Any) -> Any:
        # A number of float32 may be the mask's, before it is cast.
        if tensor.dtype not in (*self._half, self._ir.DataType.FLOAT):
            return tensor
        # A weight is read when it is written, so that they are not all in memory twice.
        return self._ir.LazyTensor(
            lambda: self._ir.Tensor(self._numbers(tensor.numpy(), tensor.name or "")),
            dtype=self._ir.DataType.FLOAT,
            shape=tensor.shape,
            name=tensor.name,
        )

    def _numbers(self, array: Any, name: str) -> Any:
        made = array.astype("float32")
        # A number by itself is a factor or an exponent, and no weight.
        if self._shaken is not None and array.dtype != made.dtype and array.size > 1:
            made *= 1 + _rounding(array.dtype) * (2 * _random(self._shaken, name).random(array.shape, "float32") - 1)
        for end, wide in self._ends:
            made[array == end] = wide
        return made


def _ends(dtype: Any) -> list[tuple[float, float]]:
    """Return the smallest and the largest number of a type, each with that of float32."""
    import ml_dtypes
    import numpy as np

    own, wide = cast("Any", ml_dtypes.finfo)(dtype), np.finfo(np.float32)
    return [(float(own.min), float(wide.min)), (float(own.max), float(wide.max))]


def _rounding(dtype: Any) -> float:
    """Return the largest share of a number that a type rounds off."""
    import ml_dtypes

    return float(cast("Any", ml_dtypes.finfo)(dtype).eps) / 2


def _random(seed: int, name: str) -> Any:
    """Return a source of numbers for a weight, which is read anew each time that it is written."""
    import numpy as np

    return np.random.default_rng((seed, zlib.crc32(name.encode())))
