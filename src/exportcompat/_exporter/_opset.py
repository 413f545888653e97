"""The version of ONNX's operators that a file is asked to have: found out before any work, and held to."""

from importlib import import_module
from typing import Any

from exportcompat.registry import ExportCompatError, installed_version, parse_range

_LEAST = 18
"""The operators that torch's exporter writes; it has none of an older version."""

_PREFERRED = 23
"""The first version with `Attention`, `RotaryEmbedding` and `RMSNormalization`, so that graphs are half as large."""

_PREFERRED_WITH = ("torch>=2.13", "onnx>=1.18", "onnxscript>=0.7", "onnxruntime>=1.23.1")
"""What it was run with. onnxruntime 1.23.0 loads such a file and computes shared heads wrongly."""


def default_opset() -> int | None:
    """Return the version for a file that was asked for none: 23 where the installed packages take it, else torch's."""
    ranges = [parse_range(text) for text in _PREFERRED_WITH]
    found = [(item, installed_version(item.package)) for item in ranges]
    return _PREFERRED if all(version is not None and item.admits(version) for item, version in found) else None


def check_opset(opset: int | None) -> None:
    """Refuse a version that torch cannot write, or that the installed onnx does not know.

    Raises:
        ExportCompatError: it is such a version; the message says which ones can be had.
    """
    if opset is None:
        return
    most = _most()
    if not _LEAST <= opset <= most:
        versions = f"torch {installed_version('torch')}, onnxscript {installed_version('onnxscript')}"
        raise ExportCompatError(
            f"opset {opset} cannot be written with {versions}; ask for {_LEAST} to {most}, or leave it out"
        )


def check_written(program: Any, opset: int | None) -> None:
    """Refuse a program that has other operators than it was asked for.

    Args:
        program: a `torch.onnx.ONNXProgram`.
        opset: what was asked; None for any.

    Raises:
        ExportCompatError: torch has not converted it, which it says in a log alone.
    """
    found = program.model.opset_imports.get("")
    if opset is not None and found != opset:
        raise ExportCompatError(
            f"opset {opset} was asked for, and torch could only write {found}: a node cannot be converted; "
            f"ask for {found}, or leave it out"
        )


def _most() -> int:
    """Return the newest version that can be converted to, and that onnx can check."""
    try:
        converter = import_module("onnxscript.version_converter._version_converter")
        limit = int(converter.SUPPORTED_MAX_ONNX_OPSET)
    except (ImportError, AttributeError):
        # An older onnxscript converts by what onnx has.
        limit = int(import_module("torch.onnx._constants").ONNX_MAX_OPSET)
    return min(limit, int(import_module("onnx").defs.onnx_opset_version()))
