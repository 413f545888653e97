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
_FOLDERS = ("additional_chat_templates",)


def copy_companions(source: Path, folder: Path, dtype: str) -> tuple[list[Path], list[str]]:
    """Copy everything but weights, byte by byte, and write `config.json` with the type of the file.

    Args:
        source: the folder of the model; nothing in it is changed.
        folder: where the exported file is.
        dtype: of its weights, such as `float32`.

    Returns:
        What was written, and the names of what was left out.
    """
    written = [_copied(path, source, folder) for path in _companions(source)]
    left = sorted(path.name for path in source.iterdir() if path.is_file() and _is_weights(path))
    config: dict[str, Any] = json.loads((source / "config.json").read_text("utf-8"))
    # transformers 4.56 has renamed it; a reader of either knows the name that stands there.
    config["torch_dtype" if "torch_dtype" in config and "dtype" not in config else "dtype"] = dtype
    (folder / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if not (source / "generation_config.json").exists():
        # The running transformers has made one up.
        (folder / "generation_config.json").unlink(missing_ok=True)
    return [*written, folder / "config.json"], left


def _companions(source: Path) -> Iterator[Path]:
    for path in sorted(source.iterdir()):
        if path.is_file() and not path.name.startswith(".") and path.name not in _OWN and not _is_weights(path):
            yield path
    for name in _FOLDERS:
        yield from sorted(path for path in (source / name).glob("*") if path.is_file())


def _is_weights(path: Path) -> bool:
    return path.suffix in _WEIGHTS or path.name.endswith(_INDEX)


def _copied(path: Path, source: Path, folder: Path) -> Path:
    target = folder / path.relative_to(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    # A copy of the content alone: files of the hub's cache are links, and may be read-only.
    shutil.copyfile(path, target)
    return target
