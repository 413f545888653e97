"""Files of the matrix: replaced as a whole or not at all."""

import json
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat.registry import ExportCompatError


def write_text(path: Path, text: str) -> None:
    """Write a text with its line ends; whatever interrupts this, the file is the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(text, "utf-8", newline="")
    part.replace(path)


def write_section(path: Path, name: str, text: str) -> None:
    """Put a text on a page between `<!-- NAME -->` and `<!-- end of NAME -->`; the page is replaced as a whole.

    Raises:
        ExportCompatError: the page cannot be read or has not both marks.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    marks = f"the lines {begin.strip()} and {end.strip()}"
    try:
        page = path.read_text("utf-8")
    except OSError as error:
        raise ExportCompatError(f"{path} cannot be read ({error}); name a page that has {marks}") from error
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ExportCompatError(f"{path} has not {marks}; write them where the text shall stand")
    write_text(path, f"{head}{begin}{text}\n{end}{tail}")


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
