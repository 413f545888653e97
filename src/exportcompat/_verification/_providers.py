"""The providers of ONNX Runtime that files are run by, and tensors for them."""

from typing import Any

from exportcompat._extras import require
from exportcompat.registry import ExportCompatError

CPU = "CPUExecutionProvider"
DEVICES = {CPU: "cpu", "CUDAExecutionProvider": "cuda"}
"""The providers that files are run by, and where those have their tensors."""

_EXACT = {"use_tf32": "0"}
"""TF32 would round products to 10 bits, which is neither what eager does by default nor the fault of a file."""

_BFLOAT16 = 16
"""The number of the type in ONNX."""


def check_provider(provider: str) -> None:
    """Refuse a provider before any work.

    Raises:
        ExportCompatError: files cannot be run by it here.
        MissingExtraError: onnxruntime is not installed.
    """
    here = require("onnxruntime", "onnx").get_available_providers()
    if provider not in DEVICES:
        raise ExportCompatError(f"the provider {provider!r} is not known; write one of {', '.join(DEVICES)}")
    if provider not in here:
        raise ExportCompatError(
            f"onnxruntime has no {provider} here, only {', '.join(here)}; install onnxruntime-gpu in its place, where "
            "there is a GPU"
        )


def with_options(provider: str) -> list[Any]:
    """Return what a session is given: a provider with its options, and the CPU for what it has no kernel for."""
    return [CPU] if provider == CPU else [(provider, _EXACT), CPU]


def ort_value(tensor: Any) -> Any:
    """Return a tensor of torch on the CPU as one of ONNX Runtime, bfloat16 included."""
    runtime, torch = require("onnxruntime", "onnx"), require("torch", "torch")
    tensor = tensor.contiguous()
    if tensor.dtype != torch.bfloat16:
        return runtime.OrtValue.ortvalue_from_numpy(tensor.numpy())
    bits = tensor.view(torch.int16).numpy().view("uint16")
    return runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, _BFLOAT16)


def moved(value: Any, device: str) -> Any:
    """Return a value on a device; bfloat16, which cannot be copied to another one, without its numbers."""
    if device == "cpu":
        return value
    runtime = require("onnxruntime", "onnx")
    if value.data_type() == "tensor(bfloat16)":
        return runtime.OrtValue.ortvalue_from_shape_and_type(value.shape(), _BFLOAT16, device, 0)
    return runtime.OrtValue.ortvalue_from_numpy(value.numpy(), device, 0)
