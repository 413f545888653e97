"""Masks are made by `torch.vmap`, which some recorders cannot follow and no file can hold.

Symptom: `RuntimeError: unordered_map::at` from the TorchScript exporter (`dynamo=False`), and `Failed serializing node
flat_apply` from `torch.export.save`: every decoder of transformers 4.53 to 4.57.
Cause: a mask function is written for one query and one key, and vmapped over batch, heads, queries and keys.
What is done: while it is traced, such a function is called once, with each index along an axis of its own. This is what
upstream does from 5.0 on. A function that does not take indices of several axes is vmapped as before.
Can go: with transformers 4.57; from 5.0 on only masks that users write are vmapped.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_vmap_for_bhqkv(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_vmap_for_bhqkv` let the axes of the indices broadcast while they are traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    def _vmap_for_bhqkv(mask_function: Callable[..., Any], bh_indices: bool = True) -> Callable[..., Any]:
        vmapped = original(mask_function, bh_indices)

        def mask(batch: Any, head: Any, query: Any, key: Any) -> Any:
            indices = _apart((batch, head, query, key)) if is_traced(key) else []
            if not indices or not _can_broadcast(mask_function, indices):
                return vmapped(batch, head, query, key)
            with _plain_indexing():
                made = mask_function(*indices)
            return made.expand([index.numel() for index in indices if index is not None])

        return mask

    return _vmap_for_bhqkv


def _apart(indices: Sequence[Any]) -> list[Any]:
    """Return indices `(size,)` with as many axes as there are indices, each along its own; None stays None."""
    there = [index for index in indices if index is not None]
    views = (
        index[(None,) * axis + (slice(None),) + (None,) * (len(there) - axis - 1)] for axis, index in enumerate(there)
    )
    return [None if index is None else next(views) for index in indices]


def _can_broadcast(mask_function: Callable[..., Any], indices: Sequence[Any]) -> bool:
    """Say whether a function takes indices of several axes, by a call that is not recorded."""
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    try:
        with _plain_indexing(), disable_proxy_modes_tracing():
            made = mask_function(*indices)
    except (IndexError, RuntimeError, TypeError, ValueError):
        return False
    return bool(made.dim() == sum(index is not None for index in indices))


def _plain_indexing() -> AbstractContextManager[Any]:
    """Return a context in which a tensor is indexed as usual.

    Upstream's call stands under a mode that indexes by scalar tensors, as vmap wants it, with a function of autograd.
    """
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.overrides import _get_current_function_mode, _pop_mode_temporarily

    is_under = isinstance(_get_current_function_mode(), TransformGetItemToIndex)
    return _pop_mode_temporarily() if is_under else nullcontext()


SPECS = (
    PatchingSpec(
        id="mask-broadcast",
        targets=("transformers.masking_utils:_vmap_for_bhqkv",),
        replacement=f"{__name__}:patch_vmap_for_bhqkv",
        requires=("transformers>=4.53,<5.0", "torch>=2.6"),
        reason="Masks are made by vmap: no TorchScript graph, and no torch.export program that can be saved.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/masking_utils.py",
            "https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/masking_utils.py",
        ),
        proofs=("llama_script",),
        defect=(r"torch\.vmap\(",),
        kind="wrap",
    ),
)
