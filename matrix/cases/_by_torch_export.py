"""Cases that go by `torch.export` alone: the program is saved, loaded and called, without ONNX."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from exportcompat import apply_patches
from exportcompat._verification import Discrepancy

from ._decoder import Sample
from ._flat_inputs import Interface, TensorProgram, interface_of, pytree_specs

FILE = "model.pt2"


def capture(subject: Any, *, strict: bool = False) -> Any:
    """Capture a model with its cache among the arguments, every axis that varies dynamic.

    Args:
        subject: a decoder or a `Forward`.
        strict: by Dynamo.
    """
    import torch
    from torch.utils import _pytree as pytree

    inputs = subject.sample(Sample())
    # An axis that torch cannot keep dynamic is an error, not a constant.
    dynamic = torch.export.Dim.DYNAMIC
    shapes = pytree.tree_map(lambda axis: dynamic if isinstance(axis, str) else axis, subject.dynamic_shapes(inputs))
    with torch.no_grad():
        return torch.export.export(subject.model, (), inputs, dynamic_shapes=shapes, strict=strict)


def load(folder: Path) -> TensorProgram:
    """Load a program that lies in a folder beside its interface.

    The classes of caches and results have to be pytree nodes: transformers registers those of results where it is
    imported.
    """
    import torch
    import transformers.modeling_outputs  # noqa: F401 (it registers classes)
    from torch.utils import _pytree as pytree

    with apply_patches(include=pytree_specs()):
        program = torch.export.load(folder / FILE)
        module, structure = program.module(), program.call_spec.in_spec

    def call(tensors: list[Any]) -> list[Any]:
        with apply_patches(include=pytree_specs()), torch.no_grad():
            args, kwargs = pytree.tree_unflatten(tensors, structure)
            return list(pytree.tree_leaves(module(*args, **kwargs)))

    return TensorProgram(folder, Interface.read(folder), call)


def write_program(subject: Any, path: Path, _: Collection[str]) -> None:
    """Save a program and its interface in a folder in the place of a file."""
    _write(subject, path)


def write_strict_program(subject: Any, path: Path, _: Collection[str]) -> None:
    """Save a program that Dynamo has captured, and its interface, in a folder in the place of a file."""
    _write(subject, path, strict=True)


def _write(subject: Any, path: Path, *, strict: bool = False) -> None:
    import torch

    # Before the capture, which may leave something on the model.
    interface = interface_of(subject)
    program = capture(subject, strict=strict)
    path.mkdir()
    interface.write(path)
    torch.export.save(program, path / FILE)


def compare_program(
    path: Path, make: Callable[[], Any], compare: Callable[..., list[Discrepancy]]
) -> list[Discrepancy]:
    """Compare a saved program with eager as the file of ONNX is compared."""
    return compare(load(path), make)
