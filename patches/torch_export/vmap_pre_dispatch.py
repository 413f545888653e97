"""`torch.vmap` is recorded without its batch axes, or not at all.

Symptom: `AssertionError: Current active mode ... not registered` (torch 2.8) or `NYI: querying is_contiguous inside of
vmap` (2.6, 2.7), for every decoder of transformers 4.53-4.57, which build their masks with vmap.
Cause: `torch.export` records what is called before functorch has taken the batch axes apart. An operation inside of
vmap is met with tensors that hide an axis, and an indexing by tensors is met as a function that the recorder does not
know.
What is done: inside of vmap the recorder of the same graph listens below functorch, where the axes are visible.
Can go: with torch 2.8; torch 2.9 records vmap itself (run on 2.6.0, 2.7.1, 2.8.0 and 2.9.1).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_vmap_impl(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `vmap_impl` record what functorch makes of its function."""

    def vmap_impl(*args: Any, **kwargs: Any) -> Any:
        # torch may be imported inside the scope, and these cannot be before it is whole.
        import torch
        from torch._ops import _get_dispatch_mode_pre_dispatch
        from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

        mode = _get_dispatch_mode_pre_dispatch(torch._C._TorchDispatchModeKey.PROXY)
        if mode is None:
            return original(*args, **kwargs)
        # Entering the mode takes the one before functorch away, and leaving it brings that back.
        with ProxyTorchDispatchMode(mode.tracer, mode.tracing_mode, pre_dispatch=False):
            return original(*args, **kwargs)

    return vmap_impl


SPECS = (
    PatchingSpec(
        id="torch-vmap-pre-dispatch",
        targets=("torch._functorch.apis:vmap_impl",),
        replacement=f"{__name__}:patch_vmap_impl",
        requires=("torch>=2.6,<2.9",),
        reason="What torch.vmap does is recorded before its axes are known, as in masks made by vmap: no graph.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.8.0/torch/_functorch/apis.py",
            "https://github.com/pytorch/pytorch/blob/v2.9.1/torch/_functorch/predispatch.py",
        ),
        proofs=("vmap_gpt",),
        kind="wrap",
    ),
)
