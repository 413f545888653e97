"""A graph is right for some of the dynamic sizes only, and nothing says so.

Symptom: an `if`, an `int()` or a loop on a dynamic size; the file is right at the sample's size, and silently wrong at
others (Doge beyond `keep_window_size`, MobileNetV2 at any other height and width).
Cause: while a graph is captured, a symbolic size answers Python by its value in the sample. torch keeps the answer as a
guard or an assertion, which a file does not have.
What is done: the answers are noted, with the line that asked for them. Those that make no difference are left out: an
`if` that only raises an error, an operand of `and` that another one has decided, what holds for every size that is
valid. The others are told to the open scopes, which report, warn or raise.
Before torch 2.8 tables are lengthened as `torch-export-lengthened-tables` does it, which has the same place and is for
later releases.
Can go: never; what is right for all sizes is not for torch to know.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from exportcompat.patches.toolkit.records import variants
from exportcompat.registry import PatchingSpec, tell_assumptions

from .lengthened_tables import patch_capture

_SYMBOL = re.compile(r"[su]\d+")


def patch_export_for_training(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `_export_for_training`, the capture itself, made to note what was decided about sizes."""

    def _export_for_training(*args: Any, **kwargs: Any) -> Any:
        from exportcompat.patches.toolkit.decisions import current, noting

        from ._decision_conditions import assumptions_of, axes_of

        around = current()
        with noting() as capture:
            try:
                program = original(*args, **kwargs)
            except Exception:
                if around is not None:
                    around.failed.append(capture)
                raise
        if around is not None:
            around.add(capture)
        else:
            tell_assumptions(assumptions_of(capture, axes_of(program)))
        return program

    return _export_for_training


def patch_export_for_training_tables(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `_export_for_training`, made to note what was decided, and to lengthen tables."""
    return patch_export_for_training(patch_capture(original))


def patch_export_compat(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the exporter's `export_compat`, made to note what was decided until the graph is one of ONNX."""

    def export_compat(*args: Any, **kwargs: Any) -> Any:
        from exportcompat.patches.toolkit.decisions import noting

        from ._decision_conditions import assumptions_of, axes_of, fixed_axes

        with noting() as capture:
            made = original(*args, **kwargs)
        program = getattr(made, "exported_program", None)
        if program is not None:
            names = _axis_names(made)
            found = assumptions_of(capture, axes_of(program, names))
            tell_assumptions([*fixed_axes(capture, program, names), *found])
        return made

    return export_compat


def _axis_names(made: Any) -> Mapping[str, Mapping[int, str]]:
    """Return the names of the axes of a `torch.onnx.ONNXProgram`, by the input of the graph that was captured."""
    inputs = made.exported_program.graph_signature.user_inputs
    values = list(made.model.graph.inputs)
    if len(inputs) != len(values):
        return {}
    return {name: dict(_named(value.shape)) for name, value in zip(inputs, values, strict=True)}


def _named(shape: Any) -> "list[tuple[int, str]]":
    sizes = [(axis, getattr(size, "value", size)) for axis, size in enumerate(shape or ())]
    return [(axis, size) for axis, size in sizes if isinstance(size, str) and not _SYMBOL.fullmatch(size)]


SPECS = (
    *variants(
        {
            "id": "torch-export-assumptions",
            "targets": ("torch.export._trace:_export_for_training",),
            "reason": "What a model asks of a dynamic size is answered from the sample, and nothing says so: "
            "silently wrong.",
            "upstream": ("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/fx/experimental/symbolic_shapes.py",),
            "kind": "wrap",
        },
        {
            "torch>=2.6,<2.8": {
                "replacement": f"{__name__}:patch_export_for_training_tables",
                "proofs": ("limited_capture_gpt", "growing_gpt"),
            },
            "torch>=2.8,<2.14": {
                "replacement": f"{__name__}:patch_export_for_training",
                "proofs": ("limited_capture_gpt",),
            },
        },
    ),
    PatchingSpec(
        id="torch-onnx-assumptions",
        targets=("torch.onnx._internal.exporter._compat:export_compat",),
        replacement=f"{__name__}:patch_export_compat",
        requires=("torch>=2.6",),
        reason="What was decided about a dynamic size is not said in terms of the axes of the file: silently wrong.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/onnx/_internal/exporter/_compat.py",),
        proofs=("limited_gpt",),
        kind="wrap",
    ),
)
