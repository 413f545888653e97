"""A size that the body of a `scan` makes of data is asked for outside of it.

Symptom: `PendingUnbackedSymbolNotFound: Pending unbacked symbols {u1} not in returned outputs`, for models with experts
(Mixtral, gpt-oss, Jamba, Qwen3-MoE): the tokens of an expert are found by `nonzero` in the body of a `scan`.
Cause: to know the results of a `scan`, torch runs its body with fake tensors. Sizes that are new there are none of the
results; to 2.14 they were not expected among these, as those of `cond` are not.
What is done: what a body makes is no pending size while a `scan` is asked for its results, and is as before while its
body is traced.
Can go: when torch does so again; torch 2.14 does.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_scan_call(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `ScanOp.__call__` leave sizes that its body makes to the body."""

    def call(self: Any, combine_fn: Any, init: Any, xs: Any, *args: Any, **kwargs: Any) -> Any:
        from contextlib import nullcontext

        from torch._guards import detect_fake_mode
        from torch.fx.experimental.proxy_tensor import get_proxy_mode

        mode = None if get_proxy_mode() is not None else detect_fake_mode([*init, *xs])
        sizes = None if mode is None else mode.shape_env
        with nullcontext() if sizes is None else sizes.ignore_fresh_unbacked_symbols():
            return original(self, combine_fn, init, xs, *args, **kwargs)

    return call


SPECS = (
    PatchingSpec(
        id="torch-scan-fresh-sizes",
        targets=("torch._higher_order_ops.scan:ScanOp.__call__",),
        replacement=f"{__name__}:patch_scan_call",
        requires=("torch>=2.15",),
        reason="A size that the body of a scan makes of data is asked for outside of it: no graph with experts.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.15.0/torch/_higher_order_ops/scan.py",),
        proofs=("mixtral",),
        kind="wrap",
    ),
)
