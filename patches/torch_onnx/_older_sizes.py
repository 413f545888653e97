"""Operators on sizes that releases of torch before 2.9 have no functions of ONNX for."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from onnxscript import FLOAT, INT64
from onnxscript.onnx_opset import opset18 as op

from .symbolic_operators import knowing
from .symbolic_operators import patch_get_decomps as patch_for_later


def _whole_part(number: FLOAT) -> INT64:
    return op.Cast(number, to=INT64.dtype)


def _root(number: FLOAT) -> FLOAT:
    return op.Sqrt(op.Cast(number, to=FLOAT.dtype))


FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    math.trunc: _whole_part,
    torch._sym_sqrt: _root,
}
"""Function of ONNX for each operator; scalars, sizes are int64."""


def patch_get_decomps(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `ONNXRegistry.get_decomps` know these operators, beside those that later releases lack as well."""
    return knowing(patch_for_later(original), FUNCTIONS)
