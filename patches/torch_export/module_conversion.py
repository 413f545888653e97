"""A module that is converted in `forward` cannot be traced, even to the type that it has.

Symptom: `Couldn't swap Linear.weight` (`Cannot swap t1 because it has weakref associated with it`): the routers of
Switch Transformers and NLLB-MoE, `self.classifier = self.classifier.to(self.dtype)`.
Cause: `Module.to` puts each converted parameter in the place of the old one; while a model is traced its parameters
are referred to from elsewhere, and may not be swapped.
What is done: while it is traced, a module that has nothing to convert is returned as it is.
It begins with torch 2.8 (2.6.0 and 2.7.1 were run without).
Can go: when `Module._apply` leaves out parameters that a conversion does not change.
"""

import itertools
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_module_to(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `Module.to` do nothing for a traced module that is converted already."""

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        device, dtype, _, memory_format = torch._C._nn._parse_to(*args, **kwargs)
        tensors = [*itertools.chain(self.parameters(), self.buffers())]
        if memory_format is None and tensors and all(_is_converted(tensor, device, dtype) for tensor in tensors):
            return self
        return original(self, *args, **kwargs)

    return to


def _is_converted(tensor: Any, device: Any, dtype: Any) -> bool:
    """Say whether a traced tensor has the device, and the type if it is a number with a fraction; None is any."""
    from exportcompat.patches.toolkit.tracing import is_traced

    is_typed = dtype is None or tensor.dtype == dtype or not (tensor.is_floating_point() or tensor.is_complex())
    return is_traced(tensor) and is_typed and (device is None or tensor.device == device)


SPECS = (
    PatchingSpec(
        id="torch-module-conversion",
        targets=("torch.nn.modules.module:Module.to",),
        replacement=f"{__name__}:patch_module_to",
        requires=("torch>=2.8",),
        reason="A module that forward converts to the type that it has cannot be traced: no graph.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/modules/module.py",),
        proofs=("switch_transformers_decoder", "nllb_moe_decoder"),
        kind="wrap",
    ),
)
