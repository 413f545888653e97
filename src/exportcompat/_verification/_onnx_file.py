"""An ONNX file in ONNX Runtime, with torch tensors going in and coming out."""

import copy
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from exportcompat._extras import require
from exportcompat.registry import ExportCompatError

from ._float32_copy import HALF, float32_copy
from ._providers import CPU, DEVICES, check_provider, moved, ort_value, with_options

PREFIX = "exportcompat."
"""Of our keys in `metadata_props`."""

_TYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(bfloat16)": "bfloat16",
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int16)": "int16",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(uint16)": "uint16",
    "tensor(uint32)": "uint32",
    "tensor(uint64)": "uint64",
    "tensor(bool)": "bool",
}


_ONNX_FLOATS = {"float": "float32", "double": "float64"}
"""Types whose names in ONNX are not those of torch."""


class Program(Protocol):
    """What an exporter has made and can be run, as `OnnxFile` is: torch tensors go in and come out by their names."""

    path: Path
    inputs: dict[str, list[Any]]
    outputs: list[str]

    @property
    def metadata(self) -> dict[str, str]:
        """What its maker has written down."""

    def dtype(self, name: str) -> Any:
        """Return the torch dtype of an input."""

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs by name, given tensors by name."""


class OnnxFile:
    """A file run by ONNX Runtime, on the CPU or by another of its providers.

    It has few kernels for bfloat16 on the CPU; a file that needs others is run as a copy in float32 with the same
    weights, and `is_widened` says so; its results have the types of the file all the same. On a GPU products of float32
    are those of float32, not of TF32.

    Args:
        path: the file.
        threads: threads for one operator; 0 for as many as there are cores.
        provider: `"CPUExecutionProvider"` or `"CUDAExecutionProvider"`; the CPU does what that one has no kernel for.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        ExportCompatError: the file is missing, truncated, no model, or one that ONNX Runtime cannot run here; the
            provider is not there, or cannot be started.

    Attributes:
        types: the type of each input and output by its name, as the file declares it; torch's names.
    """

    ignores_padding = False
    """Whether a decoder takes no mask of its tokens."""

    def __init__(self, path: Path, threads: int = 1, provider: str = CPU) -> None:
        runtime = require("onnxruntime", "onnx")
        if not Path(path).is_file():
            raise ExportCompatError(f"cannot load {path}: there is no such file")
        check_provider(provider)
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        self._session, self.is_widened = _session(runtime, Path(path), options, provider)
        self.path, self.provider = path, provider
        self.inputs: dict[str, list[Any]] = {item.name: item.shape for item in self._session.get_inputs()}
        self.outputs: list[str] = [item.name for item in self._session.get_outputs()]
        values = (*self._session.get_inputs(), *self._session.get_outputs())
        self._types = {item.name: _TYPES.get(item.type, item.type) for item in values}
        self.types: dict[str, str] = _declared_types(path) if self.is_widened else self._types

    @property
    def half(self) -> str:
        """The type of half precision that goes in or comes out, `"float16"` or `"bfloat16"`; empty where none does."""
        return "bfloat16" if self.is_widened else next((name for name in HALF if name in self.types.values()), "")

    def in_float32(self, shaken: int | None = None) -> "OnnxFile":
        """Return a copy of the file that computes in float32, and whose results are in it.

        Args:
            shaken: a seed, for weights that are off from the file's by what their type rounds off; None for the same.
        """
        if self.is_widened and shaken is None:
            made = copy.copy(self)
            made.is_widened, made.types = False, self._types
            return made
        with float32_copy(self.path, shaken) as path:
            return OnnxFile(path, provider=self.provider)

    @property
    def metadata(self) -> dict[str, str]:
        """The `metadata_props` of the file."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    def dtype(self, name: str) -> Any:
        """Return the torch dtype of an input."""
        return self._dtype(self.types[name])

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs by name, given tensors by name; floats are cast to what the file takes.

        Raises:
            Exception: what ONNX Runtime raises, such as for a shape that the graph does not take.
        """
        found = self._found({name: self._tensor(name, tensor) for name, tensor in feeds.items()})
        if not self.is_widened:
            return found
        return {name: tensor.to(self._dtype(self.types[name])) for name, tensor in found.items()}

    def _found(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the session gives for tensors of its own types."""
        torch = require("torch", "torch")
        # numpy has no type for it, so that such tensors go in and out another way.
        if "bfloat16" in self._types.values():
            values = {name: ort_value(tensor) for name, tensor in tensors.items()}
            results = self._session.run_with_ort_values(self.outputs, values)
            return dict(zip(self.outputs, map(torch.from_dlpack, results), strict=True))
        results = self._session.run(None, {name: tensor.numpy() for name, tensor in tensors.items()})
        return {name: torch.from_numpy(value) for name, value in zip(self.outputs, results, strict=True)}

    def bound(self, feeds: Mapping[str, Any]) -> Callable[[], object]:
        """Return a call of these inputs whose inputs and outputs stay where the provider computes."""
        device, binding = DEVICES[self.provider], self._session.io_binding()
        for name, tensor in feeds.items():
            binding.bind_ortvalue_input(name, moved(ort_value(self._tensor(name, tensor)), device))
        for name in self.outputs:
            binding.bind_output(name, device)

        def call() -> None:
            self._session.run_with_iobinding(binding)
            binding.synchronize_outputs()

        return call

    def _dtype(self, name: str) -> Any:
        return getattr(require("torch", "torch"), name)

    def _tensor(self, name: str, tensor: Any) -> Any:
        wanted = self._dtype(self._types[name])
        tensor = tensor.detach().cpu()
        return tensor.to(wanted) if tensor.is_floating_point() and wanted.is_floating_point else tensor


class UnmatchedError(ExportCompatError):
    """A file has inputs that belong to nothing that was observed.

    Args:
        what: of the file.
        unknown: their names.
        known: the names of what was observed.
    """

    def __init__(self, what: str, unknown: Sequence[str], known: Sequence[str]) -> None:
        super().__init__(
            f"{what} {', '.join(map(repr, unknown))} of the file belong to nothing that was observed "
            f"({', '.join(map(repr, known))}); export with these names, or give names={{file's name: observed name}}"
        )
        self.unknown, self.known = unknown, known


def _session(runtime: Any, path: Path, options: Any, provider: str) -> tuple[Any, bool]:
    """Return a session, and whether it is one of a copy in float32.

    Raises:
        ExportCompatError: the file cannot be loaded, or not by the provider.
    """
    try:
        session = runtime.InferenceSession(str(path), options, providers=with_options(provider))
    except Exception as error:
        # ONNX Runtime has an exception class for each of its status codes, and no common one.
        if type(error).__name__ != "NotImplemented" or "bfloat16" not in _weight_types(path):
            raise ExportCompatError(f"{path} is no ONNX model that ONNX Runtime can load: {error}") from error
    else:
        if session.get_providers()[0] != provider:
            raise ExportCompatError(
                f"onnxruntime has {provider}, but could not start it for {path}: libraries of CUDA or cuDNN are "
                "missing, or of another version; onnxruntime.InferenceSession(path, providers=[...]) prints which"
            )
        return session, False
    with float32_copy(path) as wide:
        return runtime.InferenceSession(str(wide), options, providers=[CPU]), True


def _weight_types(path: Path) -> set[str]:
    ir: Any = require("onnx_ir", "onnx")
    return {str(value.dtype).lower() for value in ir.load(path).graph.initializers.values()}


def _declared_types(path: Path) -> dict[str, str]:
    ir: Any = require("onnx_ir", "onnx")
    graph = ir.load(path).graph
    kinds = {value.name: value.dtype.name.lower() for value in (*graph.inputs, *graph.outputs)}
    return {name: _ONNX_FLOATS.get(kind, kind) for name, kind in kinds.items()}


def opened(file: Path | Program) -> Program:
    """Return an ONNX file by its path; any other program is open already."""
    return OnnxFile(file) if isinstance(file, Path) else file


def matched(found: Collection[str], known: Collection[str], what: str) -> dict[str, str]:
    """Return the known name for each name of a file; dots and underscores are the same.

    Raises:
        UnmatchedError: a name is not known.
    """
    table: dict[str, str] = {}
    for name in known:
        # torch adds to the name of an input that is a result, too.
        table[f"{_plain(name)}_orig"] = name
    table |= {_plain(name): name for name in known}
    unknown = [name for name in found if _plain(name) not in table]
    if unknown:
        raise UnmatchedError(what, unknown, list(known))
    return {name: table[_plain(name)] for name in found}


def placed(found: Sequence[str], known: Sequence[str], *, partly: bool = False) -> dict[str, str]:
    """Return the known name for each output of a file: by name where all have one, else by position.

    Args:
        found: the outputs of the file.
        known: the results of the model.
        partly: a file may lack some of them, if all that it has are known by name.

    Raises:
        ExportCompatError: there are not as many.
    """
    names, results = ({_plain(name) for name in items} for items in (found, known))
    if results <= names or (partly and names <= results):
        return {name: other for name in found for other in known if _plain(name) == _plain(other)}
    if len(found) != len(known):
        raise ExportCompatError(
            f"the file has {len(found)} outputs {list(found)}, the model {len(known)} {list(known)}"
        )
    return dict(zip(found, known, strict=True))


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name)
