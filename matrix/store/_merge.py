"""The results of several folders, such as the shards of a run, put together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exportcompat.registry import ExportCompatError

from ._results import Row, check_content, file_name, marked, write_results


@dataclass(frozen=True)
class _Found:
    """A result, and what was installed for it.

    Attributes:
        row: the result.
        environment: the packages.
    """

    row: Row
    environment: dict[str, Any]


def merge(folders: Sequence[Path], into: Path) -> Iterator[str]:
    """Put the results of folders together, and with those that are there already; the newer result of a case is kept.

    Of two results of one day, the one from the later folder is the newer. What worked before and does not now, is
    marked with what it was.

    Args:
        folders: folders of result files.
        into: the folder to write into; it may be missing, and may be one of `folders`.

    Yields:
        A line for each file that was written.

    Raises:
        ExportCompatError: a folder is missing, all are empty, or a file is damaged or has another cell's name. Nothing
            is written then. Or a file cannot be written.
        MissingExtraError: fastjsonschema is not installed.
    """
    names = _names(folders)
    if into.exists() and not into.is_dir():
        raise ExportCompatError(f"{into} is to be a folder and is a file; give another folder")
    merged = [_merged(name, [into, *folders]) for name in names]
    # All files are written before the first line is given away: whoever reads the lines may stop early.
    for name, content, _ in merged:
        _write(into / name, content)
    yield from [f"{name}: {text}" for name, _, text in merged]


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the names of all result files, sorted."""
    for folder in folders:
        if not folder.is_dir():
            raise ExportCompatError(f"there is no folder {folder}; give the folders that `--results` of a run named")
    names = {path.name for folder in folders for path in folder.glob("transformers-*.json")}
    if not names:
        where = ", ".join(map(str, folders))
        raise ExportCompatError(f"there are no results in {where}; run: nox -s matrix -- --results FOLDER")
    return sorted(names)


def _merged(name: str, folders: Sequence[Path]) -> tuple[str, dict[str, Any], str]:
    """Return the name of a file, what is to be in it, and what that means for the first folder."""
    contents = [_checked(folder / name) if (folder / name).exists() else None for folder in folders]
    present = [content for content in contents if content]
    history: dict[str, list[_Found]] = {}
    for content in present:
        for case, row in content["cases"].items():
            history.setdefault(case, []).append(_Found(row, content["environments"][row["environment"]]))
    kept = {case: _kept(found) for case, found in history.items()}
    merged = {
        **present[0],
        "environments": {found.row["environment"]: found.environment for found in kept.values()},
        "cases": {case: found.row for case, found in kept.items()},
    }
    return name, merged, _counts((contents[0] or {}).get("cases", {}), merged["cases"])


def _checked(path: Path) -> dict[str, Any]:
    """Return what is in a file whose name fits its results."""
    content = check_content(path)
    name = file_name(content["transformers"], content["torch"])
    if path.name != name:
        raise ExportCompatError(f"{path} holds the results of {name}; rename it or remove it")
    return content


def _kept(found: Sequence[_Found]) -> _Found:
    """Return the newest of a case's results, with the mark that it has after all the others."""
    # Sorting keeps the order of the folders within a day.
    first, *others = sorted(found, key=lambda item: str(item.row["date"]))
    for item in others:
        first = _Found(marked(item.row, first.row), item.environment)
    return first


def _counts(before: Mapping[str, Row], after: Mapping[str, Row]) -> str:
    new = len(after.keys() - before.keys())
    same = sum(after[case] == row for case, row in before.items())
    return f"{new} new, {len(after) - new - same} newer, {same} as they were"


def _write(path: Path, content: dict[str, Any]) -> None:
    try:
        write_results(path, content)
    except OSError as error:
        raise ExportCompatError(f"{path} cannot be written ({error}); mend that and merge again") from error
