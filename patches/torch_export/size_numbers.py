"""`int(size)` makes a number of a size that is dynamic.

Symptom: a map of `int(height * patch)` that always has the sample's size; MobileNetV2 is right at the sample's height
and width alone. In a scope or out of it there is no error, since torch tries another capture, or fixes the axis.
Cause: `int` of a symbolic size is the size of the sample: Python lets `__int__` return nothing else.
`len(tensor)` is the same, and so are `math.sqrt(size)`, by which a map has the side of a square (CLIPSeg), and
`math.log(size)`, by which attention is scaled; `divmod(size, 2)` is no operator of sizes.
What is done: while a graph is captured, `int` in the modules of the model's classes, and of the functions that they
use, gives a symbolic size back as it is, and the whole part of a symbolic fraction; `len` gives the size of the first
axis of a tensor, `divmod` two operators, and `sqrt`, `exp`, `log`, `log2` and `log10` of `math` what they are of a
size. Where a model decides by a logarithm, which a program cannot, it is that of the sample, as without a scope. A
module that looks at `int` as a type (`dtype=int`, `type(x) is int`) keeps its own; there the answer is found, and said.
Can go: when torch exports `int` of a size.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_export_to_aten_ir(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that runs a model for its graph, made to keep `int` and `len` of what is dynamic symbolic."""

    def _export_to_aten_ir_make_fx(mod: Any, *args: Any, **kwargs: Any) -> Any:
        from ._size_numbers import capture, keeping_sizes

        with keeping_sizes(mod):
            return capture(lambda: original(mod, *args, **kwargs))

    return _export_to_aten_ir_make_fx


SPECS = (
    PatchingSpec(
        id="torch-export-size-numbers",
        targets=("torch.export._trace:_export_to_aten_ir_make_fx",),
        replacement=f"{__name__}:patch_export_to_aten_ir",
        requires=("torch>=2.6",),
        reason="int(size) is the size of the sample: a graph for one height and width, which nothing says.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/__init__.py",
            "https://github.com/fabio-sim/Depth-Anything-ONNX/issues/14",
        ),
        proofs=("counting_gpt",),
        kind="wrap",
    ),
)
