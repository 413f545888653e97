"""`torch.export` does not know a cache by the name that it had in an older release of transformers.

Symptom: "its top-level keys must be the arg names [..., 'cache', ...]" for `dynamic_shapes={"past_key_values": ...}`.
Cause: transformers 5.24 calls the cache `cache`. `forward` still takes `past_key_values` and `cache_params`, by a
decorator, but its signature does not have them, so torch finds such an argument behind `**kwargs`.
What is done: a cache that was given by a name that the decorator takes counts under that name. The captured program
takes it by that name too.
Can go: with torch 2.13; 2.14 looks for shapes behind `**kwargs` by itself (run on 2.8.0, 2.13.0, 2.14.0 and 2.15.0).
Or when transformers does not take the old names any more (announced for 5.40).
"""

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from exportcompat.patches.toolkit.cache_names import CACHES
from exportcompat.patches.toolkit.records import source, variants


def patch_combine_args(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_combine_args` put what was given by an old name beside the other arguments."""

    def _combine_args(f: Any, args: Any, kwargs: Any, *rest: Any, **others: Any) -> Any:
        return lift_old_names(original(f, args, kwargs, *rest, **others), f)

    return _combine_args


def lift_old_names(combined: Any, model: Any) -> Any:
    """Return bound arguments of a model with those that have an old name beside the others, not behind `**`."""
    found = [name for name in old_names(getattr(model, "forward", model)) if name not in combined]
    for variable in [name for name, value in combined.items() if isinstance(value, dict)] if found else ():
        behind = combined[variable]
        old = {name: behind[name] for name in found if name in behind}
        left = {name: value for name, value in behind.items() if name not in old}
        if old:
            others = {name: value for name, value in combined.items() if name != variable}
            return {**others, **old, **({variable: left} if left else {})}
    return combined


def old_names(function: Any) -> list[str]:
    """Return the names of a cache that `deprecate_kwarg` of transformers makes a function take in place of others."""
    names = [_closure_values(item).get("old_name") for item in _chain(function)]
    return [name for name in names if name in CACHES]


def _chain(function: Any) -> Iterator[FunctionType]:
    """Yield a function, or that of a method, and what it wraps."""
    while function is not None:
        function = getattr(function, "__func__", function)
        if isinstance(function, FunctionType):
            yield function
        function = getattr(function, "__wrapped__", None)


def _closure_values(function: FunctionType) -> dict[str, Any]:
    """Return what a function has from where it was made, by name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    return {name: cell.cell_contents for name, cell in cells if name == "old_name"}


_COMBINED = ("torch.export.dynamic_shapes:_combine_args", "torch._export.non_strict_utils:_combine_args")


_REASON = "A cache that is given by its old name is behind **kwargs, where torch does not look for it: no graph."

SPECS = variants(
    {
        "id": "torch-export-renamed-arguments",
        "replacement": f"{__name__}:patch_combine_args",
        "reason": _REASON,
        "upstream": (source("utils/deprecation.py", "v5.24.0"),),
        "proofs": ("llama_old_name", "mamba_old_name"),
        "kind": "wrap",
    },
    {
        # To 2.7 `torch-export-argument-order` does it for the third place.
        ("transformers>=5.24", "torch>=2.6,<2.8"): {"targets": _COMBINED},
        ("transformers>=5.24", "torch>=2.8,<2.14"): {"targets": (*_COMBINED, "torch.export._trace:_combine_args")},
    },
)
