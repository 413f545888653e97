"""`torch_int` makes a constant of a size that is dynamic.

Symptom: a file for images of the traced size alone, which stops in ONNX Runtime at others (BEiT with relative
positions); or torch tries a slower way to capture the model, after a first that has failed.
Cause: `torch_int(x)` is `int(x)` in every case that is not `torch.jit.trace`, and `int` of a symbolic size is the size
of the sample.
What is done: a symbolic size stays what it is, as it is whole already. In 4.44 BEiT calls `int` itself.
From torch 2.13 on `torch-export-size-numbers` does so wherever `int` is called.
Can go: when `torch_int` knows `torch.SymInt`, or with torch 2.12.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_torch_int(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Give a symbolic size back as it is, and an int for any other number."""

    def torch_int(x: Any) -> Any:
        import torch

        return x if isinstance(x, torch.SymInt) else original(x)

    return torch_int


SPECS = (
    PatchingSpec(
        id="torch-int-sizes",
        targets=("imported(transformers.utils.generic:torch_int)",),
        replacement=f"{__name__}:patch_torch_int",
        requires=("transformers>=4.45", "torch>=2.6,<2.13"),
        reason="`torch_int` makes a constant of a dynamic size: files for images of one size.",
        upstream=("https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/utils/generic.py",),
        proofs=("beit",),
        defect=(r"else int\(x\)",),
        kind="wrap",
    ),
)
