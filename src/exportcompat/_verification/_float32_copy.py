"""A copy of a file in half precision that computes in float32, with the same weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from exportcompat._extras import require

HALF = ("float16", "bfloat16")
"""The types of half precision, by the names that torch has for them."""

_TYPED_ATTRIBUTES = ("to", "dtype", "output_dtype")
"""Attributes that name the type of a result: those of `Cast`, and of operators that make a tensor."""


@contextmanager
def float32_copy(path: Path) -> Iterator[Path]:
    """Give the path of a copy of a file in which float32 stands for float16 and bfloat16; it is gone afterwards.

    Each weight has the value that it has in the file. A result differs from that of the file by what each operator in
    half precision rounds off.

    Raises:
        MissingExtraError: onnx-ir is not installed.
    """
    ir: Any = require("onnx_ir", "onnx")
    model = ir.load(path)
    for graph in model.graphs():
        for value in (*graph.inputs, *graph.initializers.values()):
            _widen_value(ir, value)
    for function in model.functions.values():
        for value in function.inputs:
            _widen_value(ir, value)
    for container in (model.graph, *model.functions.values()):
        for node in ir.traversal.RecursiveGraphIterator(container):
            _widen_node(ir, node)
    with TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        ir.save(model, copy, external_data=f"{path.name}.data")
        yield copy


def _widen_node(ir: Any, node: Any) -> None:
    for value in node.outputs:
        _widen_value(ir, value)
    for name, attribute in list(node.attributes.items()):
        if attribute.type == ir.AttributeType.TENSOR:
            node.attributes[name] = ir.AttrTensor(name, _widened(ir, attribute.value))
        elif name in _TYPED_ATTRIBUTES and _is_half(ir, attribute.value):
            node.attributes[name] = ir.AttrInt64(name, ir.DataType.FLOAT.value)


def _widen_value(ir: Any, value: Any) -> None:
    if _is_half(ir, value.dtype):
        value.dtype = ir.DataType.FLOAT
    if value.const_value is not None:
        value.const_value = _widened(ir, value.const_value)


def _widened(ir: Any, tensor: Any) -> Any:
    if not _is_half(ir, tensor.dtype):
        return tensor
    # A weight is read when it is written, so that they are not all in memory twice.
    return ir.LazyTensor(
        lambda: ir.Tensor(tensor.numpy().astype("float32")),
        dtype=ir.DataType.FLOAT,
        shape=tensor.shape,
        name=tensor.name,
    )


def _is_half(ir: Any, kind: Any) -> bool:
    return kind in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
