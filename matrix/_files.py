"""Files of the matrix: replaced as a whole or not at all."""

import json
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from exportcompat._extras import require


def write_text(path: Path, text: str) -> None:
    """Write a text with its line ends; whatever interrupts this, the file is the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(text, "utf-8", newline="")
    part.replace(path)


def held(folder: Path) -> AbstractContextManager[Any]:
    """Return a lock on the files of a folder; other processes wait in `with` until it is free.

    Raises:
        MissingExtraError: filelock is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock: AbstractContextManager[Any] = require("filelock", "all").FileLock(folder / ".lock")
    return lock


def write_json(path: Path, content: Any) -> None:
    """Write plain data as JSON; whatever interrupts this, the file is the old one or the new one."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_lock(path: Path, content: dict[str, dict[str, Any]]) -> None:
    """Write the lock file of sources, in an order that does not depend on which command found what, and when."""
    write_json(path, {name: dict(sorted(rows.items())) for name, rows in sorted(content.items())})
