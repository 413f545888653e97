"""Operators on sizes, as functions of ONNX."""

import builtins
from collections.abc import Callable, Mapping
from typing import Any

import torch
from onnxscript import BOOL, FLOAT, INT64
from onnxscript.onnx_opset import opset18 as op


def _float(size: INT64) -> FLOAT:
    return op.Cast(size, to=FLOAT.dtype)


def _larger(first: INT64, second: INT64) -> INT64:
    return op.Max(first, second)


def _smaller(first: INT64, second: INT64) -> INT64:
    return op.Min(first, second)


def _opposite(truth: BOOL) -> BOOL:
    return op.Not(truth)


def _rounded(number: FLOAT, digits: int | None = None) -> Any:
    if digits is None:
        return op.Cast(op.Round(number), to=INT64.dtype)
    scale = op.Constant(value_float=10.0**digits)
    return op.Div(op.Round(op.Mul(number, scale)), scale)


FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    torch.sym_float: _float,
    torch.sym_max: _larger,
    torch.sym_min: _smaller,
    torch.sym_not: _opposite,
    builtins.round: _rounded,
}
"""Function of ONNX for each operator; scalars, sizes are int64."""
