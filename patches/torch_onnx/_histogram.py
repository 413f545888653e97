"""`histc` as a function of ONNX."""

from onnxscript import INT64
from onnxscript.function_libs.torch_lib.tensor_typing import TFloat
from onnxscript.onnx_opset import opset18 as op


def histogram(self: TFloat, bins: int = 100, min: float = 0.0, max: float = 0.0) -> TFloat:  # noqa: A002 (upstream's names)
    """Return how many elements are in each of `(bins,)` equal parts of a range; those outside do not count."""
    if min == max:
        raise NotImplementedError("histc without a range takes that of the data, which has no graph here")
    flat = op.Reshape(self, op.Constant(value_ints=[-1]))
    low, high, count = (op.CastLike(op.Constant(value_float=float(end)), flat) for end in (min, max, bins))
    is_inside = op.And(op.GreaterOrEqual(flat, low), op.LessOrEqual(flat, high))
    part = op.Floor(op.Mul(op.Div(op.Sub(op.Where(is_inside, flat, low), low), op.Sub(high, low)), count))
    # The last part has its upper end, too.
    place = op.Min(op.Cast(part, to=INT64.dtype), op.Constant(value_int=bins - 1))
    empty = op.CastLike(op.Constant(value_floats=[0.0] * bins), flat)
    return op.ScatterElements(empty, place, op.CastLike(is_inside, flat), axis=0, reduction="add")
