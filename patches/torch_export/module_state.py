"""`torch.export.export` leaves on the live model what its `forward` stored while it was traced.

Symptom: after an export the eager output is wrong (3.5 to 7 off for Phi3 longrope on transformers 5.21-5.23), and a
second export fails with "fake mode ... doesn't match".
Cause: non-strict export runs the real `forward` of the real module. An attribute or buffer that `forward` assigns
then holds a FakeTensor. torch restores attributes that were tensors before, not those that are new. What `forward` puts
into a dictionary of its module stays too: transformers 5.2 and later install hooks when hidden states are first asked
for, and would install them twice if their mark alone were taken away.
What is done: every module gets its attributes and tables back. Inside of `torch.onnx.export`, which tries another way
after an error, they come back when its last try is over (`torch-onnx-second-try`).
Can go: when `torch.export` restores every attribute of every module.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.module_state import kept_for_next_try
from exportcompat.patches.toolkit.records import source, variants


def patch_trace_export(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_export` leave every module of the exported model as it was."""

    def _export(mod: Any, *args: Any, **kwargs: Any) -> Any:
        with kept_for_next_try(mod):
            return original(mod, *args, **kwargs)

    return _export


SPECS = variants(
    {
        "id": "torch-export-module-state",
        "targets": ("torch.export._trace:_export",),
        "replacement": f"{__name__}:patch_trace_export",
        "reason": "What forward stores on its module while it is traced stays there: later eager calls are wrong.",
        "upstream": (source("modeling_rope_utils.py", "v5.23.0"),),
        "kind": "wrap",
    },
    {
        # To 2.9 `torch-export-new-attributes` takes a hook's mark away, but not the hook: it would be installed twice.
        "torch>=2.6,<2.10": {"proofs": ("hooking_gpt",)},
        "torch>=2.10": {"proofs": ("stateful_gpt",)},
    },
)
