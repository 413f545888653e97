"""The results of seasons as a table: seasons down, versions of Python across."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from exportcompat.matrix.store import BROKEN, NOT_THERE, WORKS, check_content
from exportcompat.matrix.versions import PYTHONS, seasons
from exportcompat.registry import COMPANIONS

_Row = Mapping[str, Any]
_SHOWN = 160
"""Characters of a problem that are shown."""


def season_lines(folder: Path) -> Iterator[str]:
    """Yield the section of Markdown about seasons; nothing where none was run.

    Args:
        folder: that of all results.

    Raises:
        ExportCompatError: a file is not one of ours.
        MissingExtraError: fastjsonschema is not installed.
    """
    if not (folder / "seasons").is_dir():
        return
    yield from (
        "## Seasons",
        "",
        "Versions that were current together: how many of the cases that were run or carried work.",
        "",
    )
    yield "| season | transformers | " + " | ".join(f"Python {text}" for text in PYTHONS) + " | beside it |"
    yield "|---" * (3 + len(PYTHONS)) + "|"
    broken = list[str]()
    for name, season in seasons().items():
        beside = ", ".join(f"{package} {season[package]}" for package in COMPANIONS if package in season)
        for transformers in season["transformers"]:
            rows = list(_rows(folder, name, transformers))
            shares = " | ".join(_share(rows, python) for python in PYTHONS)
            yield f"| {name} | {transformers} | {shares} | {beside} |"
            broken += _broken(rows, f"season {name}, transformers {transformers}")
    yield from ("", *broken, *([""] if broken else []))


def _rows(folder: Path, season: str, transformers: str) -> Iterator[tuple[str, str, _Row]]:
    """Yield each case, the Python that it was run with, and its result."""
    for path in sorted((folder / "seasons").glob(f"transformers-{transformers}_torch-*_season-{season}*.json")):
        if path.stem.partition("_season-")[2].partition("_")[0] != season:
            continue
        content = check_content(path)
        for case, row in content["cases"].items():
            python = content["environments"][row["environment"]]["python"]
            yield case, python.rpartition(".")[0], row


def _share(rows: list[tuple[str, str, _Row]], python: str) -> str:
    """Return how many of the results with one Python work."""
    tested = [row for _, found, row in rows if found == python and row["state"] not in NOT_THERE]
    if tested:
        same = sum("carried" in row for row in tested)
        return f"{sum(row['state'] in WORKS for row in tested)}/{len(tested)}" + f" ({same} carried)" * bool(same)
    return "uninstallable" if any(found == python for _, found, _ in rows) else "not run"


def _broken(rows: list[tuple[str, str, _Row]], where: str) -> list[str]:
    """Return a line for each case that does not work."""
    bad = [item for item in rows if item[2]["state"] in BROKEN]
    return [
        f"- **{row['state']}**: `{case}`, {where}, Python {python}: `{(row['problems'] or ['no message'])[0][:_SHOWN]}`"
        for case, python, row in bad
    ]
