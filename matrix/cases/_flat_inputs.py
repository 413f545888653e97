"""Arguments of a model as tensors in a row: what exporters and runtimes take that know no other structure."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from exportcompat import plan

from ._decoder import Sample

_FILE = "interface.json"


def pytree_specs() -> list[str]:
    """Return the ids of the specs that only take caches apart: every exporter has some of its own."""
    return [item.spec.id for item in plan() if item.applies and all(place.is_pytree for place in item.spec.places)]


def tensor_axes(shapes: Any) -> list[Any]:
    """Return the dynamic axes of each tensor, by number, in the order of torch's pytrees; None for a fixed shape."""
    from torch.utils import _pytree as pytree

    return list(pytree.tree_leaves(shapes, is_leaf=_is_axes))


def _is_axes(node: Any) -> bool:
    """Say whether a node of dynamic shapes is what one tensor has: a name for each of its dynamic axes."""
    return isinstance(node, dict) and all(isinstance(key, int) for key in node)


@dataclass(frozen=True)
class Interface:
    """How a result is called: tensors in a row.

    Attributes:
        shapes: the shape of each input by its name; a dynamic axis has a name.
        dtypes: the name of the torch dtype of each.
        outputs: the names of the outputs.
    """

    shapes: dict[str, list[int | str]]
    dtypes: dict[str, str]
    outputs: list[str]

    def write(self, folder: Path) -> None:
        """Write it into the folder of the result."""
        (folder / _FILE).write_text(json.dumps(asdict(self)), "utf-8")

    @classmethod
    def read(cls, folder: Path) -> "Interface":
        """Read what `write` has written."""
        return cls(**json.loads((folder / _FILE).read_text("utf-8")))


def interface_of(subject: Any) -> Interface:
    """Return the interface of a decoder or a `Forward` with its usual sample."""
    from torch.utils import _pytree as pytree

    inputs = subject.sample(Sample())
    names, outputs = subject.names(inputs)
    leaves, axes = pytree.tree_leaves(inputs), tensor_axes(subject.dynamic_shapes(inputs))
    rows = dict(zip(names, zip(leaves, axes, strict=True), strict=True))
    shapes = {
        name: [(held or {}).get(axis, size) for axis, size in enumerate(leaf.shape)]
        for name, (leaf, held) in rows.items()
    }
    dtypes = {name: str(leaf.dtype).rpartition(".")[2] for name, (leaf, _) in rows.items()}
    return Interface(shapes, dtypes, outputs)


class TensorProgram:
    """A result that takes tensors in a row, called by their names as `OnnxFile` is.

    Args:
        folder: where it is.
        interface: how it is called.
        call: runs it: the tensors of all inputs to those of all outputs, in order.
    """

    def __init__(self, folder: Path, interface: Interface, call: Callable[[list[Any]], Sequence[Any]]) -> None:
        self.path = folder
        self._interface, self._call = interface, call
        self.inputs: dict[str, list[Any]] = dict(self._interface.shapes)
        self.outputs = self._interface.outputs

    @property
    def metadata(self) -> dict[str, str]:
        """Nothing: these results have no place for it."""
        return {}

    def dtype(self, name: str) -> Any:
        """Return the torch dtype of an input."""
        import torch

        return getattr(torch, self._interface.dtypes[name])

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs by name, given tensors by name."""
        found = self._call([feeds[name] for name in self.inputs])
        # A model may return more than what is compared.
        return dict(zip(self.outputs, found, strict=False))
