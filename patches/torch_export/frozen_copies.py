"""What `Tensor.to` returns cannot be written to.

Symptom: `cannot mutate tensors with frozen storage` for Qwen2-Audio: a mask is converted to the dtype of the
activations, and filled in place. For Kimi Linear: a state that is float32 already is converted to float32, and replaced
in place. For a static cache: its tensors are moved to the device where they are, and written to. Llama 4, DeepSeek-V2:
complex numbers that are moved to the device where they are become a copy, which ONNX has not.
Cause: in a graph `to` is always a copy, in Python it may be the tensor itself, so torch freezes what it returns.
What is done: what was converted to another dtype is not frozen, because it is a copy in Python, too, as in torch 2.7;
what has dtype and device already stays the tensor itself, as in torch 2.8.
Can go: with torch 2.7.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_functional_tensor_dispatch(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep `FunctionalTensorMode.__torch_dispatch__` from freezing what has another dtype than before."""
    import torch

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.export and _is_itself(func, args, kwargs or {}):
            return args[0]
        is_copy = func is torch.ops.aten._to_copy.default and (kwargs or {}).get("dtype") not in (None, args[0].dtype)
        if not (is_copy and self.export):
            return original(self, func, types, args, kwargs)
        # Of this operator the mode decides nothing else by being one of an export.
        self.export = False
        try:
            return original(self, func, types, args, kwargs)
        finally:
            self.export = True

    return dispatch


def _is_itself(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Say whether `func` is a conversion that returns its tensor."""
    import torch

    checks: dict[Any, Callable[..., bool]] = {
        torch.ops.aten.to.dtype: _has_dtype,
        torch.ops.aten.to.dtype_layout: _has_all,
    }
    return func in checks and checks[func](*args, **kwargs)


def _has_dtype(
    tensor: Any, dtype: Any, non_blocking: bool = False, copy: bool = False, memory_format: Any = None
) -> bool:
    """Say whether `aten.to.dtype` of these arguments returns its tensor."""
    return tensor.dtype == dtype and not copy and memory_format is None


def _has_all(tensor: Any, **wanted: Any) -> bool:
    """Say whether `aten.to.dtype_layout` of these arguments returns its tensor."""
    return all(wanted.get(name) in (None, getattr(tensor, name)) for name in ("dtype", "layout", "device")) and not any(
        wanted.get(name) for name in ("pin_memory", "copy", "memory_format")
    )


SPECS = (
    PatchingSpec(
        id="torch-export-frozen-copies",
        targets=("torch._subclasses.functional_tensor:FunctionalTensorMode.__torch_dispatch__",),
        replacement=f"{__name__}:patch_functional_tensor_dispatch",
        requires=("torch>=2.6,<2.8",),
        reason="What `Tensor.to` returns cannot be written to: no graph.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.6.0/torch/_subclasses/functional_tensor.py",
            "https://github.com/pytorch/pytorch/blob/v2.7.0/torch/_subclasses/functional_tensor.py",
        ),
        proofs=("deepseek_v2",),
        kind="wrap",
    ),
)
