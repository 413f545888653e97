"""`torch.export` cannot give dynamic shapes to an argument that reaches `forward` through `**kwargs`.

Symptom: `AssertionError: Must provide a tree_name when there might be a mismatch`. transformers 5.x hands image
features to `forward` in this way, so no image-and-text model exports from what `generate` passes.
Cause: when torch collects the range of each axis it binds the arguments to the signature, which puts them under the
name of the `**` parameter, and then adds each of them once more under its own name.
What is done: that step is given a signature in which these arguments are parameters, and their shapes by name.
Can go: with torch 2.13; 2.14 exports the same models without it (run on 2.7.1, 2.8.0, 2.9.1, 2.10.0, 2.13.0, 2.14.0
and 2.15.0).
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_get_range_constraints(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_get_range_constraints` know the arguments behind `**` by name."""

    def _get_range_constraints(
        mod: Any, export_artifact: Any, args: Any, kwargs: Any, dynamic_shapes: Any, *rest: Any, **others: Any
    ) -> Any:
        signature = inspect.signature(mod.forward if hasattr(mod, "forward") else mod)
        name = next((item.name for item in signature.parameters.values() if item.kind is item.VAR_KEYWORD), None)
        extra = [key for key in kwargs or {} if key not in signature.parameters]
        if name is None or not extra or not isinstance(dynamic_shapes, dict) or name not in dynamic_shapes:
            return original(mod, export_artifact, args, kwargs, dynamic_shapes, *rest, **others)
        shapes = {key: value for key, value in dynamic_shapes.items() if key != name}
        shapes |= dynamic_shapes[name] or dict.fromkeys(extra)
        return original(_taking(signature, extra), export_artifact, args, kwargs, shapes, *rest, **others)

    return _get_range_constraints


def _taking(signature: inspect.Signature, extra: list[str]) -> Callable[..., None]:
    """Return a function whose signature has `extra` in place of `**`."""
    known = [item for item in signature.parameters.values() if item.kind is not item.VAR_KEYWORD]
    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in extra]

    def forward(*args: Any, **kwargs: Any) -> None:
        """Stand for the model; it is never called."""

    forward.__signature__ = signature.replace(parameters=[*known, *named])  # type: ignore[attr-defined]
    return forward


SPECS = (
    PatchingSpec(
        id="torch-export-var-keyword",
        targets=("torch.export._trace:_get_range_constraints",),
        replacement=f"{__name__}:patch_get_range_constraints",
        requires=("torch>=2.8,<2.14",),
        reason="Arguments that reach forward through **kwargs cannot have dynamic shapes: no graph.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/export/_trace.py",),
        proofs=("open_gpt",),
        kind="wrap",
    ),
)
