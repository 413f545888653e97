"""`scatter` with a source, as a function of ONNX."""

from onnxscript import INT64
from onnxscript.function_libs.torch_lib.tensor_typing import TReal
from onnxscript.onnx_opset import opset18 as op


def scatter(self: TReal, dim: int, index: INT64, src: TReal) -> TReal:
    """Return `self` with the values of `src` at the places that `index` names along an axis."""
    # ONNX wants as many values as places, and torch takes more.
    shape = op.Shape(index)
    values = op.Slice(src, op.Sub(shape, shape), shape)
    return op.ScatterElements(self, index, values, axis=dim)
