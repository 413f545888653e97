"""The folder that an export writes: it is checked before any work, and is whole or not there afterwards."""

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from exportcompat.registry import ExportCompatError


@contextmanager
def staged(folder: Path, source: str, *, overwrite: bool) -> Iterator[Path]:
    """Yield a folder beside `folder`; if all goes well its files are put into `folder`, else nothing is left.

    Args:
        folder: where the files are to be.
        source: the folder of the model, which nothing may be written to.
        overwrite: put them there although it is not empty; what has another name stays.

    Raises:
        ExportCompatError: it cannot be written to, is not empty, or is the model's own.
    """
    _check(folder, source, overwrite=overwrite)
    above = folder.absolute().parent
    made = [item for item in (above, *above.parents) if not item.exists()]
    try:
        above.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder if folder.is_dir() else above))
    except OSError as error:
        raise ExportCompatError(f"cannot write to {folder}: {error.strerror or error}; name another folder") from error
    try:
        yield staging
        _move(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        for item in made:
            if item.is_dir() and not any(item.iterdir()):
                item.rmdir()


def _check(folder: Path, source: str, *, overwrite: bool) -> None:
    # A device, or a link to what is not there, is no file and no folder.
    if folder.suffix == ".onnx" or (os.path.lexists(folder) and not folder.is_dir()):
        raise ExportCompatError(f"{folder} is no folder; name one, and model.onnx and its configuration are put there")
    if Path(source).is_dir() and folder.resolve() == Path(source).resolve():
        raise ExportCompatError(f"{folder} is the folder of the model, which is left as it is; name another one")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise ExportCompatError(f"{folder} is not empty; name another folder, or pass --overwrite")


def left_before(folder: Path, written: Collection[Path]) -> list[str]:
    """Return the files of a folder that are not of this export: clients would read them beside its own.

    What is hidden no client reads.

    Args:
        folder: where it has put its files.
        written: those, by their paths in the folder.
    """
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    others = found.difference(written)
    return sorted(path.as_posix() for path in others if not any(part.startswith(".") for part in path.parts))


def _move(staging: Path, folder: Path) -> None:
    """Put files into their places, those that need others last."""
    new = {path.name for path in staging.rglob("*")}
    for path in sorted(staging.rglob("*"), key=lambda item: item.suffix == ".onnx"):
        if not path.is_file():
            continue
        target = folder / path.relative_to(staging)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
        # Weights that an earlier file of this name had beside it belong to no file any more.
        weights = target.with_name(f"{target.name}.data")
        if path.suffix == ".onnx" and weights.name not in new:
            weights.unlink(missing_ok=True)
