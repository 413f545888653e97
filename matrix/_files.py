"""Files of the matrix: replaced as a whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Write a text with its line ends; whatever interrupts this, the file is the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(text, "utf-8", newline="")
    part.replace(path)


def write_json(path: Path, content: Any) -> None:
    """Write plain data as JSON; whatever interrupts this, the file is the old one or the new one."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_results(path: Path, content: dict[str, Any]) -> None:
    """Write a result file: only what is in use, in an order that does not depend on when it was found.

    Args:
        path: the file.
        content: what `results.schema.json` describes.
    """
    used = sorted({row["environment"] for row in content["cases"].values()})
    names = ("schema", "transformers", "torch")
    write_json(
        path,
        {
            **{name: content[name] for name in names},
            "environments": {name: content["environments"][name] for name in used},
            "cases": {name: dict(sorted(row.items())) for name, row in sorted(content["cases"].items())},
        },
    )
