"""Elements that are taken along an axis, and operators like it, make numbers of all sizes.

Symptom: `You marked L['x'].size()[0] as dynamic but your code specialized it to be a constant (3)` for
`torch.take_along_dim`, as PP-DocLayoutV2 sorts its boxes by it. The same, or a bare `TraceError`, for `torch.linspace`
and `logspace` of as many steps as a size, `tril_indices` and `triu_indices`, `affine_grid`, and `interpolate` by a
factor that is made of sizes, as positions of patches are fitted to an image; and for `fill_diagonal_`, by which
ProphetNet hides tokens, an axis that is fixed, or `as_strided() is non-compositional`. For `max_pool1d`, by which
CANINE makes molecules of characters, `tracing inferred a static shape`, and no line.
Cause: the operators are made in C++, where sizes are read as integers, and factors as numbers.
What is done: while a model is captured, what they mean is made of operators that take sizes: a gather of what both
tensors are when expanded, numbers counted from both ends, rows that are repeated, a mask of a diagonal, a few weighted
elements for each one of a map, and a maximum over an image of one row. Outside, and where they are told where to write,
it is torch's own.
Can go: when torch asks for symbolic sizes there, as 2.6 and 2.8 do for the first (run on 2.6.0, 2.8.0, 2.11.0, 2.13.0
and 2.15.0).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import variants


def patch_override(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_override` answer functions that read sizes as numbers by others that do not."""

    def _override(self: Any, func: Any, args: Any, kwargs: Any) -> Any:
        from ._sized_operators import operator_for

        found = operator_for(func, args, kwargs)
        return original(self, func, args, kwargs) if found is None else (found, args, kwargs)

    return _override


SPECS = variants(
    {
        "id": "torch-export-taken-along",
        "targets": ("torch._export.non_strict_utils:_NonStrictTorchFunctionHandler._override",),
        "replacement": f"{__name__}:patch_override",
        "reason": "`take_along_dim`, `linspace` and others make numbers of sizes: no graph for other ones.",
        "upstream": (
            "https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/TensorAdvancedIndexing.cpp",
        ),
        "kind": "wrap",
    },
    {
        "torch>=2.7,<2.11": {"proofs": ("spacing_gpt",)},
        "torch>=2.11": {"proofs": ("taking_gpt", "spacing_gpt")},
    },
)
