"""Which versions does a model export with? Pairs of releases that were run, as lines of requirements."""

import json
from pathlib import Path

from packaging.version import Version

from exportcompat.registry import ExportCompatError, Range, parse_range

from ._cells import Cell
from ._files import Dataset


def model_type_of(text: str) -> str:
    """Return the model type that a text names: a folder with a `config.json`, or else the type itself.

    Raises:
        ExportCompatError: the folder has no `config.json` that says a model type.
    """
    folder = Path(text).expanduser()
    if not folder.is_dir():
        return text
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ExportCompatError(f"{path} cannot be read ({error}); name a folder with a model, or a type") from None
    found = config.get("model_type") if isinstance(config, dict) else None
    if not isinstance(found, str) or not found:
        raise ExportCompatError(f"{path} says no model_type; name the type itself, such as llama")
    return found


def working(cells: list[Cell], torch: str | None = None, transformers: str | None = None) -> list[Cell]:
    """Return the pairs on which all that was tested works, newest first.

    Args:
        cells: results of a model type.
        torch: a release or the start of one (`2.9`), or bounds (`>=2.9,<2.12`); None for all.
        transformers: the same.

    Raises:
        SpecError: a bound is malformed.
    """
    ranges = {"torch": torch, "transformers": transformers}
    wanted = [_range(name, text) for name, text in ranges.items() if text]
    return [cell for cell in cells if cell.does_work and all(_admits(bounds, cell) for bounds in wanted)]


def _range(package: str, text: str) -> Range:
    """Return bounds as such, and a release as it and the patch releases of its start."""
    bare = text.strip()
    if bare[:1].isdigit():
        bare = f"=={bare}" if bare.count(".") > 1 or bare.endswith("*") else f"=={bare}.*"
    return parse_range(f"{package} {bare}")


def _admits(bounds: Range, cell: Cell) -> bool:
    return bounds.admits(Version(cell.torch if bounds.package == "torch" else cell.transformers))


def requirement(cell: Cell, source: Dataset) -> str:
    """Return what to install for a pair, as arguments of `pip install` or lines of a file of requirements."""
    patches = f" exportcompat>={source.index['exportcompat']}" if cell.outcome == "patched" else ""
    return f"transformers=={cell.transformers} torch=={cell.torch}{patches}"
