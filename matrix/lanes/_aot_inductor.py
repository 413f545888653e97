"""AOTInductor: a program compiled to a library by a C++ compiler, in a package that runs without a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exportcompat import apply_patches
from exportcompat.matrix.cases import Interface, TensorProgram, by_torch_export, pytree_specs

from ._lane import Lane

_FILE = "model.pt2"
_SETTINGS: Mapping[str, Any] = {"compile_threads": 1}


def convert(program: Any, _: Any, folder: Path) -> None:
    """Compile a program into a package."""
    import torch

    torch._inductor.aoti_compile_and_package(
        program, package_path=str(folder / _FILE), inductor_configs=dict(_SETTINGS)
    )


def load(folder: Path) -> TensorProgram:
    """Load a package; the classes of caches and results have to be pytree nodes, as for a program."""
    import torch
    import transformers.modeling_outputs  # noqa: F401 (it registers classes)
    from torch.utils import _pytree as pytree

    with apply_patches(include=pytree_specs()):
        package = torch._inductor.aoti_load_package(str(folder / _FILE))
        structure = pytree.treespec_loads(package.loader.get_call_spec()[0])

    def call(tensors: list[Any]) -> list[Any]:
        with apply_patches(include=pytree_specs()), torch.no_grad():
            args, kwargs = pytree.tree_unflatten(tensors, structure)
            return list(pytree.tree_leaves(package(*args, **kwargs)))

    return TensorProgram(folder, Interface.read(folder), call)


LANES = (
    Lane(
        name="aot-inductor",
        title="AOTInductor",
        capture=by_torch_export.capture,
        convert=convert,
        load=load,
        how_dynamic="batch, lengths, sizes of images: all dynamic",
        notes="It needs a C++ compiler where the package is made, and none where it is run.\n",
        snippet="""\
with apply_patches(), torch.no_grad():
    program = torch.export.export(model, (), kwargs, dynamic_shapes=shapes, strict=False)
    torch._inductor.aoti_compile_and_package(program, package_path="model.pt2")

import transformers.modeling_outputs  # in a process that has no model: torch looks up the classes of the results

with apply_patches():  # where a cache is among the arguments: torch looks its class up
    outputs = torch._inductor.aoti_load_package("model.pt2")(**kwargs)
""",
    ),
)
