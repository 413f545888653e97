"""Weights that a model has in fewer bits: what becomes of them in a file, and what to do where it cannot hold them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from exportcompat._extras import require

_PACKAGES = ("torchao", "bitsandbytes", "optimum", "hqq", "gptqmodel", "auto_gptq", "awq", "compressed_tensors")
"""Packages whose layers and tensors stand for weights in fewer bits. torch has such modules too."""

_MODULES = ("torch.ao.nn.quantized", "transformers.integrations")
_SMALL = ("INT8", "UINT8", "INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E5M2")
_NIBBLE = range(-8, 8)
_PACKABLE = 1024
"""Elements from which on a weight is worth to be packed."""

_OPSET = 23
"""From which on weights are packed: runtimes that take it have a `Cast` of int4, and onnx a type."""


@dataclass(frozen=True)
class Quantized:
    """The quantized layers of a model.

    Attributes:
        layers: how many there are, by what they are, such as `Linear4bit (bitsandbytes)`.
        elements: of all weights of the model, as floating point would have them.
    """

    layers: Counter[str]
    elements: int

    def __str__(self) -> str:
        return ", ".join(f"{name} in {count} of its modules" for name, count in self.layers.items())


def quantized_layers(model: Any) -> Quantized | None:
    """Return the quantized layers of a model; None if it has none."""
    found = Counter(name for module in model.modules() for name in _kinds(module))
    shown = sum(parameter.numel() for parameter in model.parameters())
    return Quantized(found, shown + sum(map(_packed_away, model.modules()))) if found else None


def _kinds(module: Any) -> Iterator[str]:
    """Yield what is quantized of one module itself: its class, or that of its weight."""
    path = type(module).__module__
    is_layer = path.startswith((*(f"{name}." for name in _PACKAGES), *_MODULES))
    for owner in [module] if is_layer else module.parameters(recurse=False):
        package = type(owner).__module__.partition(".")[0]
        if owner is module or package in _PACKAGES:
            yield f"{type(owner).__name__} ({package})"
            return


def _packed_away(module: Any) -> int:
    """Return how many elements of its weight a linear layer does not show, because several are in one."""
    sizes = (getattr(module, "in_features", 0), getattr(module, "out_features", 0))
    held = sum(parameter.numel() for parameter in module.parameters(recurse=False))
    return max(0, sizes[0] * sizes[1] - held) if all(isinstance(size, int) for size in sizes) else 0


def pack_nibbles(model: Any) -> None:
    """Store int8 weights that fit into 4 bits as int4, which loses nothing.

    Args:
        model: an `onnx_ir.Model`; a weight that anything but a `Cast` reads stays as it is.
    """
    ir: Any = require("onnx_ir", "onnx")
    if model.opset_imports.get("", 0) < _OPSET:
        return
    for value in model.graph.initializers.values():
        if value.const_value.dtype == ir.DataType.INT8 and _is_packable(value):
            packed = ir.tensor(value.const_value.numpy(), dtype=ir.DataType.INT4, name=value.name)
            value.const_value, value.dtype = packed, ir.DataType.INT4


def _is_packable(value: Any) -> bool:
    tensor = value.const_value
    if tensor.size < _PACKABLE or any(use.node.op_type != "Cast" for use in value.uses()):
        return False
    numbers = tensor.numpy()
    return bool(value.uses() and numbers.min() in _NIBBLE and numbers.max() in _NIBBLE)


def weights_line(found: Quantized | None, model: Any) -> str:
    """Return a sentence on what became of quantized weights; empty for a model without any.

    Args:
        found: the quantized layers.
        model: the `onnx_ir.Model` that was made of the model.
    """
    if found is None:
        return ""
    held: Counter[str] = Counter()
    for value in model.graph.initializers.values():
        held[str(value.const_value.dtype)] += value.const_value.nbytes
    small = {name: size for name, size in held.items() if name in _SMALL}
    kept = " and ".join(f"{_megabytes(size)} of {name.lower()}" for name, size in small.items()) or "none in fewer bits"
    return (
        f"weights: {found}; the file has {kept}, {_megabytes(sum(held.values()))} in all, where float32 would have "
        f"{_megabytes(4 * found.elements)}"
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.3g} MB"
