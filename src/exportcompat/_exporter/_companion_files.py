"""The files of a model's folder that clients need beside an exported file: copied as they are."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_WEIGHTS = (
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".h5",
    ".msgpack",
    ".onnx",
    ".onnx_data",
    ".data",
    ".gguf",
    ".ot",
)
_INDEX = ".index.json"
_OWN = ("config.json", "genai_config.json")
"""What an export writes: the type of the file's weights is in the one, and names of its inputs in the other."""
_CACHE = "__pycache__"


def copy_companions(source: Path, folder: Path, dtype: str, output: Path | None = None) -> tuple[list[Path], list[str]]:
    """Copy everything but weights, byte by byte, and write `config.json` with the type of the file.

    Args:
        source: the folder of the model; nothing in it is changed.
        folder: where the exported file is.
        dtype: of its weights, such as `float32`.
        output: where the files will be; if that is in `source`, it is no part of the model. None for `folder`.

    Returns:
        What was written, and what was left out: weights, and hidden files beside `config.json`.
    """
    files = list(_files(source, {folder.resolve(), (output or folder).resolve()}))
    written = [_copied(path, source, folder) for path in files if _is_companion(path.relative_to(source))]
    hidden = [path.name for path in source.iterdir() if path.is_file() and path.name.startswith(".")]
    left = sorted([*hidden, *(path.relative_to(source).as_posix() for path in files if _is_weights(path))])
    config: dict[str, Any] = json.loads((source / "config.json").read_text("utf-8"))
    # transformers 4.56 has renamed it; a reader of either knows the name that stands there.
    config["torch_dtype" if "torch_dtype" in config and "dtype" not in config else "dtype"] = dtype
    (folder / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if not (source / "generation_config.json").exists():
        # The running transformers has made one up.
        (folder / "generation_config.json").unlink(missing_ok=True)
    return [*written, folder / "config.json"], left


def _files(folder: Path, others: set[Path]) -> Iterator[Path]:
    """Yield the files of a folder and of those in it, but for what is hidden and for the folders `others`."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == _CACHE:
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and path.resolve() not in others and not folder.resolve().is_relative_to(path.resolve()):
            # A link to a folder above would lead here again.
            yield from _files(path, others)


def _is_companion(path: Path) -> bool:
    """Say whether a file is copied, given its path in the folder of the model."""
    return str(path) not in _OWN and not _is_weights(path)


def _is_weights(path: Path) -> bool:
    return path.suffix in _WEIGHTS or path.name.endswith(_INDEX)


def _copied(path: Path, source: Path, folder: Path) -> Path:
    target = folder / path.relative_to(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    # A copy of the content alone: files of the hub's cache are links, and may be read-only.
    shutil.copyfile(path, target)
    return target
