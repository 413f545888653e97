"""A model's folder, or its name on the hub: what is wrong with it is found before anything is loaded."""

import json
import os
from pathlib import Path

from exportcompat.registry import ExportCompatError, did_you_mean

_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".h5", ".msgpack", ".onnx")
_ORDER = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
"""Where transformers looks for weights: it takes the first that is there."""
_POINTER = b"version https://git-lfs"


def resolve(source: str) -> str:
    """Return the absolute path of a folder, or the name of a repository of the hub as it is.

    Raises:
        ExportCompatError: it is neither, or the folder has no model that transformers could load.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        _check_folder(path)
        return str(path.resolve())
    if path.suffix == ".gguf":
        raise ExportCompatError(gguf(source))
    if path.is_file():
        raise ExportCompatError(f"{source} is a file; name the folder that it is in, with config.json and the weights")
    # A name of the hub is one word, or two with a slash between them.
    if path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1 or os.sep * 2 in source:
        raise ExportCompatError(f"cannot load {source!r}: there is no such folder here{near_folders(source)}")
    return source


def near_folders(source: str) -> str:
    """Return a question that names the folders whose paths are most like one that is not there; may be empty."""
    path = Path(source).expanduser()
    return did_you_mean(path.name, [name for name in _names(path.parent) if (path.parent / name).is_dir()])


def _names(folder: Path) -> list[str]:
    return [item.name for item in folder.iterdir()] if folder.is_dir() else []


def _check_folder(path: Path) -> None:
    names = sorted(_names(path))
    if "config.json" not in names:
        if any(name.endswith(".gguf") for name in names):
            raise ExportCompatError(gguf(str(path)))
        found = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else "nothing"
        adapter = "; it is an adapter: merge it into its model first" if "adapter_config.json" in names else ""
        raise ExportCompatError(f"cannot load {str(path)!r}: it has no config.json; it has {found}{adapter}")
    _check_shards(path, names)
    weights = [name for name in names if name.endswith(_WEIGHTS)]
    if weights and all(name.endswith(".gguf") for name in weights):
        raise ExportCompatError(gguf(str(path)))
    if not weights:
        raise ExportCompatError(
            f"cannot load {str(path)!r}: it has a config.json and no weights; it has {', '.join(names)}"
        )
    for name in weights:
        if name.endswith((".safetensors", ".bin")):
            _check_weights(path / name)


def _check_shards(path: Path, names: list[str]) -> None:
    """Refuse a folder whose index names files that are not there.

    Raises:
        ExportCompatError: one is missing.
    """
    index = next((name for name in _ORDER if name in names), "")
    if not index.endswith(".index.json"):
        return
    shards = _shards(path / index)
    missing = [name for name in shards if not (path / name).is_file()]
    if missing:
        raise ExportCompatError(
            f"cannot load {str(path)!r}: {index} names {missing[0]!r}, which is not there; "
            f"{len(missing)} of {len(shards)} files of weights are missing: copy or download them"
        )


def _shards(index: Path) -> list[str]:
    """Return the files that an index names; nothing if it cannot be read, which transformers says better."""
    try:
        return sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def gguf(source: str) -> str:
    """Return why weights in GGUF are not taken, and what is.

    Args:
        source: what has them.
    """
    return (
        f"{source} has weights in GGUF, a format of llama.cpp that is mostly quantized; export the model that it was "
        "made of: a folder with config.json and safetensors"
    )


def _check_weights(path: Path) -> None:
    """Refuse weights that are not whole.

    Raises:
        ExportCompatError: the file is a pointer of Git LFS, or shorter than its header says.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        begin = file.read(len(_POINTER))
        if begin == _POINTER:
            raise ExportCompatError(f"cannot load {path}: it is a pointer of Git LFS; run: git lfs pull")
        if path.suffix == ".safetensors":
            file.seek(0)
            length = int.from_bytes(file.read(8), "little")
            wanted = length + 8 if length + 8 > size else _length(file.read(length)) + length + 8
            if wanted > size:
                raise ExportCompatError(
                    f"cannot load {path}: it is truncated: it has {size} bytes, and its header says {wanted}; "
                    "copy or download it again"
                )


def _length(header: bytes) -> int:
    """Return the bytes that follow the header of a file of safetensors; 0 if it cannot be read."""
    try:
        entries = json.loads(header).items()
        return max((entry["data_offsets"][1] for name, entry in entries if name != "__metadata__"), default=0)
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0
