"""A model that the exporter's second try would export fails inside a scope, and does not outside of it.

Symptom: CLIPSeg, and other models that `strict=False` cannot capture, export plainly and not inside `apply_patches()`.
What is said is the reason of the first try; the second ends with `Unsupported` about a lock.
Cause: `torch.onnx.export` tries `strict=False`, and then `strict=True`. The first try runs `forward`, which installs
hooks (transformers 5.2 and later, where hidden states are asked for). `torch-export-module-state` takes them away with
whatever else `forward` has stored, so Dynamo meets the code that installs them, which holds a lock.
What is done: the model gets back what it had when all tries are over. Between them it loses the tensors alone that the
first try has left on it: those are FakeTensors, which no other try can use.
Can go: with `torch-export-module-state`.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_export(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the exporter's `export` made to give a model its state back after its last try."""
    from exportcompat.patches.toolkit.module_state import kept_through

    def export(model: Any, *args: Any, **kwargs: Any) -> Any:
        with kept_through():
            return original(model, *args, **kwargs)

    return export


SPECS = (
    PatchingSpec(
        id="torch-onnx-second-try",
        targets=("torch.onnx._internal.exporter._core:export",),
        replacement=f"{__name__}:patch_export",
        requires=("torch>=2.7",),
        reason="What the first try stores on a model is what lets the second succeed: a scope must not take it away.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/onnx/_internal/exporter/_capture_strategies.py",
            "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/utils/output_capturing.py",
        ),
        proofs=("retried_gpt",),
        kind="wrap",
    ),
)
