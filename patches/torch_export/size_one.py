"""A dynamic axis whose sample size is 1 becomes a constant of the graph.

Symptom: exported with a sample of batch 1, or of one new token, there is no graph ("is_causal must be bool, not
SymBool"), or there is one that is wrong, or stops in ONNX Runtime ("Shape mismatch attempting to re-use buffer"), at
every other size.
Cause: while torch traces, a symbolic size answers comparisons by its value in the sample. Models, decompositions
(`matmul`) and the strides of a view ask whether a size is 1. The answer is kept as an assertion, which ONNX does not
have, and the axis counts as 1 from there on.
What is done: where a dynamic axis of the sample has size 1, the sample is repeated along every dynamic axis, three
times, before it is traced. All sizes grow by the same factor, so what holds between them (past + new = total) still
does. An axis of size 0 stays empty. Nothing is done where an axis is bounded below that, derived from another, or
`Dim.AUTO`, which may turn out to be no dynamic axis at all.
Can go: when torch does not let a dynamic axis answer by the sample's 1 (`backed_size_oblivious` does so in part).
"""

from collections.abc import Callable, Iterator
from typing import Any

from exportcompat.registry import PatchingSpec

_FACTOR = 3


def patch_torch_export(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `torch.export.export` enlarge a sample in which a dynamic axis has size 1."""

    def export(mod: Any, args: Any, kwargs: Any = None, *rest: Any, dynamic_shapes: Any = None, **others: Any) -> Any:
        args, kwargs = _enlarged(mod, args, kwargs, dynamic_shapes)
        return original(mod, args, kwargs, *rest, dynamic_shapes=dynamic_shapes, **others)

    return export


def _enlarged(model: Any, args: Any, kwargs: Any, shapes: Any) -> tuple[Any, Any]:
    """Return the sample, repeated along its dynamic axes if one of them has size 1."""
    import torch
    from torch.utils._pytree import tree_map

    from exportcompat.patches.toolkit.decisions import current

    try:
        found = [(leaf, list(_dynamic_axes(leaf, axes))) for leaf, axes in _leaves(model, args, kwargs, shapes)]
    except Exception:
        # The shapes do not fit the arguments, or cannot be scaled; what there is to say of them torch says better.
        return args, kwargs
    if not any(leaf.shape[axis] == 1 for leaf, axes in found for axis in axes):
        return args, kwargs
    if capture := current():
        capture.factor = _FACTOR
    larger = {}
    for leaf, axes in found:
        counts = [_FACTOR if axis in axes else 1 for axis in range(leaf.dim())]
        larger[id(leaf)] = leaf.repeat(counts) if axes else leaf
    enlarged: tuple[Any, Any] = tree_map(
        lambda leaf: larger.get(id(leaf), leaf) if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs)
    )
    return enlarged


def _leaves(model: Any, args: Any, kwargs: Any, shapes: Any) -> list[tuple[Any, Any]]:
    """Return each tensor of the arguments with its axes, matched as torch matches them."""
    import torch
    from torch.export.dynamic_shapes import _combine_args, _tree_map_with_path

    arguments = _combine_args(model, args, kwargs)
    if isinstance(shapes, (tuple, list)):
        arguments = type(shapes)(arguments.values())
    found: list[tuple[Any, Any]] = []
    if isinstance(shapes, (dict, tuple, list)):
        _tree_map_with_path(lambda _, leaf, axes: found.append((leaf, axes)), arguments, shapes, tree_name="inputs")
    return [(leaf, axes) for leaf, axes in found if isinstance(leaf, torch.Tensor)]


def _dynamic_axes(leaf: Any, axes: Any) -> Iterator[int]:
    """Yield the axes of `leaf` that are dynamic.

    Raises:
        ValueError: one of them cannot take the larger size.
    """
    items = enumerate(axes) if isinstance(axes, (list, tuple)) else (axes or {}).items()
    for axis, dim in items:
        # A hint (`Dim.STATIC`) says what it is by the name of its type, in older releases by its own.
        hint = getattr(getattr(dim, "type", dim), "name", None)
        if dim is None or isinstance(dim, int) or hint == "STATIC":
            continue
        least, most = getattr(dim, "min", None), getattr(dim, "max", None)
        size = leaf.shape[axis] * _FACTOR
        is_outside = (most is not None and size > most) or (least is not None and size < least)
        if hint == "AUTO" or hasattr(dim, "root") or is_outside:
            raise ValueError(f"axis {axis} ({dim}) cannot take the size {size}")
        yield axis


SPECS = (
    PatchingSpec(
        id="torch-export-size-one",
        targets=("torch.export:export",),
        replacement=f"{__name__}:patch_torch_export",
        requires=("torch>=2.6",),
        reason="A dynamic axis of size 1 in the sample (batch 1, one token) becomes a constant: no graph, or wrong.",
        upstream=(
            "https://github.com/pytorch/pytorch/issues/157621",
            "https://github.com/pytorch/pytorch/issues/140011",
            "https://github.com/huggingface/transformers/pull/46196",
        ),
        proofs=("llama:1,5,1", "gemma2_window:1,5,1"),
        kind="wrap",
    ),
)
