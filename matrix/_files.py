"""Files of results: replaced as a whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, content: Any) -> None:
    """Write plain data as JSON; whatever interrupts this, the file is the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    part.replace(path)
