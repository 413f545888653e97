"""`torch.export.export` leaves on the live model what its `forward` stored while it was traced.

Symptom: after an export the eager output is wrong (3.5 to 7 off for Phi3 longrope on transformers 5.21-5.23), and a
second export fails with "fake mode ... doesn't match".
Cause: non-strict export runs the real `forward` of the real module. An attribute or buffer that `forward` assigns
then holds a FakeTensor. torch restores attributes that were tensors before, not those that are new. What `forward` puts
into a dictionary of its module stays too: transformers 5.2 and later install hooks when hidden states are first asked
for, and would install them twice if their mark alone were taken away.
Can go: when `torch.export` restores every attribute of every module.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.module_state import kept
from exportcompat.registry import PatchingSpec


def with_state_kept(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `original` made to leave every module of the exported model as it was."""

    def _export(mod: Any, *args: Any, **kwargs: Any) -> Any:
        with kept(mod):
            return original(mod, *args, **kwargs)

    return _export


def _variant(releases: str, proof: str) -> PatchingSpec:
    return PatchingSpec(
        id="torch-export-module-state",
        targets=("torch.export._trace:_export",),
        replacement=f"{__name__}:with_state_kept",
        requires=(f"torch{releases}",),
        reason="What forward stores on its module while it is traced stays there: later eager calls are wrong.",
        upstream=("https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/modeling_rope_utils.py",),
        proofs=(proof,),
        kind="wrap",
    )


SPECS = (
    # To 2.9 `torch-export-new-attributes` takes the mark of a hook away, but not the hook: it would be installed twice.
    _variant(">=2.6,<2.10", "hooking_gpt"),
    _variant(">=2.10", "stateful_gpt"),
)
