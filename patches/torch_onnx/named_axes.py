"""An axis that the user has named becomes a constant if it has size 1 in the sample.

Symptom: exported with `dynamic_shapes={"x": {0: "batch"}}` and a sample of batch 1, the file refuses every other batch.
Cause: torch 2.7 makes `Dim.AUTO` of a name, which lets torch decide whether the axis is dynamic; later releases make
`Dim.DYNAMIC` of it. An axis of size 1 counts as a constant, and `torch-export-size-one` leaves an axis alone that may
be none.
What is done: a name is `Dim.DYNAMIC`. An axis that was named and cannot be dynamic is an error then, as in torch 2.8.
Can go: with torch 2.7.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_convert_str_to_export_dim(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `convert_str_to_export_dim` take names for dynamic axes."""
    import torch
    from torch.utils._pytree import tree_map_only

    def convert_str_to_export_dim(dynamic_shapes: Any) -> tuple[Any, bool]:
        shapes, has_names = original(dynamic_shapes)
        if has_names:
            shapes = tree_map_only(str, lambda _: torch.export.Dim.DYNAMIC, dynamic_shapes)
        return shapes, has_names

    return convert_str_to_export_dim


SPECS = (
    PatchingSpec(
        id="torch-onnx-named-axes",
        targets=("torch.onnx._internal.exporter._dynamic_shapes:convert_str_to_export_dim",),
        replacement=f"{__name__}:patch_convert_str_to_export_dim",
        requires=("torch>=2.7,<2.8",),
        reason="An axis that has a name, and size 1 in the sample, becomes a constant: every other size is refused.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.8.0/torch/onnx/_internal/exporter/_dynamic_shapes.py",),
        proofs=("llama:1,5,1",),
        kind="wrap",
    ),
)
