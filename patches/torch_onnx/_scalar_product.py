"""`mul` with a number as a function of ONNX."""

from onnxscript.function_libs.torch_lib.tensor_typing import TTensor
from onnxscript.onnx_opset import opset18 as op


def product(self: TTensor, other: float) -> TTensor:
    """Return each element times a number, in the type of the tensor."""
    if not self.dtype.is_floating_point() and other != int(other):
        raise NotImplementedError("mul of integers and a fraction is one of floats, which has no graph here")
    return op.Mul(self, op.CastLike(op.Constant(value_float=float(other)), self))
