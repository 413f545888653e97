"""The folder that an export writes: it is checked before any work, and is whole or not there afterwards."""

import shutil
import tempfile
from collections.abc import Iterator
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
    if folder.suffix == ".onnx" or folder.is_file():
        raise ExportCompatError(f"{folder} is no folder; name one, and model.onnx and its configuration are put there")
    if Path(source).is_dir() and folder.resolve() == Path(source).resolve():
        raise ExportCompatError(f"{folder} is the folder of the model, which is left as it is; name another one")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise ExportCompatError(f"{folder} is not empty; name another folder, or pass --overwrite")


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
