"""An input that is written to takes the gradient of what is written, and is refused when operators are decomposed.

Symptom: `Found a graph input that requires gradients, and received a mutation` for models whose cache copies states in
place (transformers 5.5 and later: LFM2, Nemotron-H, Kimi Linear, ...).
Cause: the example of an input that a program keeps is the tensor that the trace wrote to, and that one needs a gradient
if what was written is made of parameters. Inference has no use for it.
What is done: examples of inputs are detached before operators are decomposed.
Can go: with torch 2.8; later versions ask only where a backward graph is made.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_export_to_aten_ir(original: Callable[..., Any]) -> Callable[..., Any]:
    """Detach the examples of inputs in `_export_to_aten_ir`, which makes a program for inference."""
    import torch
    from torch.utils._pytree import tree_map_only

    def _export_to_aten_ir(mod: Any, fake_args: Any, fake_kwargs: Any, *args: Any, **kwargs: Any) -> Any:
        inputs = tree_map_only(torch.Tensor, torch.Tensor.detach, (fake_args, fake_kwargs))
        return original(mod, *inputs, *args, **kwargs)

    return _export_to_aten_ir


SPECS = (
    PatchingSpec(
        id="torch-export-mutated-inputs",
        targets=("torch.export._trace:_export_to_aten_ir",),
        replacement=f"{__name__}:patch_export_to_aten_ir",
        requires=("torch>=2.6,<2.9",),
        reason="A cache that copies its states in place is refused when operators are decomposed: no graph.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.8.0/torch/_functorch/aot_autograd.py",
            "https://github.com/pytorch/pytorch/blob/v2.9.0/torch/_functorch/aot_autograd.py",
        ),
        proofs=("lfm2",),
        kind="wrap",
    ),
)
