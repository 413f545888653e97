"""`torch.export` with `strict=True` cannot return a cache.

Symptom: `NotImplementedError: currently can't reconstruct arbitrary frozen dataclass instances`, for every decoder that
returns its cache.
Cause: what a cache is besides its tensors is part of the structure of the results, and is a frozen dataclass. Dynamo
has traced how it was made, and makes a constant of the structure in the end; of frozen dataclasses it does so for
torch's own alone (torch 2.11 says `TODO loosen this restriction`).
What is done: any frozen dataclass is made of the constants of its fields. A field that does not count when two of them
are compared, and has a default, has that: attributes of the sample's cache are not needed to build one of results.
Where `torch.onnx.export` tries `strict=True` by itself, all stays as it is: what the first try was refused for, such as
GIT with images and a cache, would become a file that is wrong.
Can go: when Dynamo makes constants of frozen dataclasses.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_as_python_constant(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make `as_python_constant` take frozen dataclasses that are not torch's own."""
    from exportcompat.patches.toolkit.module_state import is_with_next_try

    def as_python_constant(self: Any) -> Any:
        cls = type(self.value)
        if cls.__module__.partition(".")[0] == "torch" or is_with_next_try():
            return original(self)
        found = {item.name: _constant(self, item.name) for item in fields(cls) if item.init and _is_needed(item)}
        return cls(**found)

    return as_python_constant


def _constant(variable: Any, name: str) -> Any:
    """Return what a field was set to while the model was traced."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    return variable.var_getattr(InstructionTranslator.current_tx(), name).as_python_constant()


def _is_needed(item: Any) -> bool:
    """Say whether a field counts in a comparison, or has no default."""
    return item.compare or (item.default is MISSING and item.default_factory is MISSING)


SPECS = (
    PatchingSpec(
        id="torch-export-result-structure",
        targets=("torch._dynamo.variables.user_defined:FrozenDataClassVariable.as_python_constant",),
        replacement=f"{__name__}:patch_as_python_constant",
        requires=("torch>=2.13,<2.14",),
        reason="With strict=True the structure of results may hold no dataclass, and that of a cache does: no graph.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/variables/user_defined.py",),
        proofs=("llama_strict",),
        kind="wrap",
    ),
)
