"""A part of a tensor that is filled has no bounds, where it goes to the end of an axis.

Symptom: `Bitwidth not available for ONNX data type: STRING` for `x[1:] += 1`, `x[:, 1:-1].fill_(3)`: no file.
Cause: torch 2.8 leaves the bounds of `slice_scatter` out that are those of the axis, and the function of onnxscript
makes a constant of each, also of one that is None.
What is done: before the translation the bounds are written, as other releases of torch do it.
Can go: with torch 2.8.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_DEFAULTS = (0, 0, sys.maxsize, 1)
"""Axis, first and last place, and step, behind the tensor and what it is filled with."""


def patch_translate_fx_graph(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the translation of a graph find the bounds of each `slice_scatter` written."""

    @functools.wraps(original)
    def _translate_fx_graph(fx_graph: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        for node in fx_graph.nodes:
            if node.target is torch.ops.aten.slice_scatter.default:
                _write_bounds(node)
        return original(fx_graph, *args, **kwargs)

    return _translate_fx_graph


def _write_bounds(node: Any) -> None:
    both, given = node.args[:2], node.args[2:]
    bounds = (*given, *_DEFAULTS[len(given) :])
    node.args = (*both, *(_DEFAULTS[place] if bound is None else bound for place, bound in enumerate(bounds)))


SPECS = (
    PatchingSpec(
        id="torch-onnx-open-slices",
        targets=("torch.onnx._internal.exporter._core:_translate_fx_graph",),
        replacement=f"{__name__}:patch_translate_fx_graph",
        requires=("torch>=2.8,<2.9", "onnxscript>=0.1"),
        reason="A part that is filled to the end of an axis has no bounds, which onnxscript cannot write: no file.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/v0.4.0/onnxscript/function_libs/torch_lib/ops/core.py",
        ),
        proofs=("filling_gpt",),
        kind="wrap",
    ),
)
