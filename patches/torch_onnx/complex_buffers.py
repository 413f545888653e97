"""A buffer of complex numbers has one axis less in the file than the operators that read it expect.

Symptom: for rotary factors that a model keeps as complex numbers ONNX Runtime cannot load the file: `Type
(tensor(float)) of output arg (slice_5) of node (node_slice_5) does not match expected type (tensor(complex64))`; or
the exporter stops with `Shapes must have the same rank`.
Cause: ONNX has the two parts of complex numbers along an axis of their own. The exporter of torch before 2.11 has them
so in all nodes, and writes buffers as complex numbers.
What is done: a buffer is written by its parts.
Can go: with torch 2.10.
"""

import functools
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_exported_program_to_onnx_program(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the translation of a program write complex buffers as the numbers that its nodes read."""

    @functools.wraps(original)
    def _exported_program_to_onnx_program(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        for value in made.model.graph.initializers.values():
            _write_parts(value)
        return made

    return _exported_program_to_onnx_program


def _write_parts(value: Any) -> None:
    import torch

    tensor = value.const_value
    raw = getattr(tensor, "raw", None)
    # Where nothing is lowered, the value is complex as well.
    if not isinstance(raw, torch.Tensor) or not raw.is_complex() or value.dtype.name.startswith("COMPLEX"):
        return
    parts = torch.view_as_real(raw.detach().resolve_conj())
    value.const_value = type(tensor)(parts, name=tensor.name)
    value.shape = value.const_value.shape


SPECS = (
    PatchingSpec(
        id="torch-onnx-complex-buffers",
        targets=("torch.onnx._internal.exporter._core:_exported_program_to_onnx_program",),
        replacement=f"{__name__}:patch_exported_program_to_onnx_program",
        requires=("torch>=2.6,<2.11", "onnxscript>=0.1"),
        reason="Complex buffers are written as such, and read by their parts: a file that does not load, or none.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.10.0/torch/onnx/_internal/exporter/_core.py",),
        proofs=("rotating_gpt",),
        kind="wrap",
    ),
)
