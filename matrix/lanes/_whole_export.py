"""What exporters have in common that capture a saved decoder and write its file in one step."""

import shutil
from pathlib import Path
from typing import Any

_FILE = "model.onnx"

CASES = ("llama", "mistral_window", "phi3_longrope", "llama_dynamic")
"""The telling decoders without experts."""


def convert(made: Any, _: Any, folder: Path) -> None:
    """Copy what an exporter has written into a temporary directory to the folder of the result."""
    shutil.copytree(made.name, folder, dirs_exist_ok=True)


def load(folder: Path) -> Path:
    """Return the file of ONNX, which is compared with eager by the names of its inputs.

    Raises:
        FileNotFoundError: the exporter has written no such file.
    """
    path = folder / _FILE
    if not path.exists():
        found = ", ".join(sorted(str(item.relative_to(folder)) for item in folder.rglob("*.onnx")))
        raise FileNotFoundError(f"no {_FILE}; files of ONNX: {found or 'none'}")
    return path
