"""A buffer that is a `Parameter` cannot be put back into the module of an exported program.

Symptom: `KeyError: "attribute 'b_c_rms' already exists"` when the program is decomposed, as for FalconMamba to 5.4.
Cause: the program's module gets the tensor by assignment, which makes a `Parameter` a parameter, and then as a buffer
of the same name.
What is done: what is put back as anything but a parameter is detached, which makes it a plain tensor.
Can go: when torch asks for the kind that it has noted, and not for the type.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_assign_attr(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_assign_attr` take the kind at its word."""
    import torch

    def _assign_attr(from_obj: Any, to_module: Any, target: str, attr_kind: Any, *args: Any, **kwargs: Any) -> None:
        is_mistaken = isinstance(from_obj, torch.nn.Parameter) and attr_kind.name != "PARAMETER"
        original(from_obj.detach() if is_mistaken else from_obj, to_module, target, attr_kind, *args, **kwargs)

    return _assign_attr


SPECS = (
    PatchingSpec(
        id="torch-export-parameter-buffer",
        targets=("torch.export._unlift:_assign_attr",),
        replacement=f"{__name__}:patch_assign_attr",
        requires=("torch>=2.6",),
        reason="A buffer that is a Parameter is put back twice when a program is decomposed: no graph.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/export/_unlift.py",),
        proofs=("buffered_gpt",),
        kind="wrap",
    ),
)
