"""The results as plain data: cells that were checked, flat records for machines, and the tables of the page."""

import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from exportcompat.matrix.cases import CASES
from exportcompat.matrix.store import NOT_THERE, PACKAGES, STATES, UNTESTED, WORKS, file_name, proof_texts, read_results
from exportcompat.matrix.versions import releases
from exportcompat.registry import ExportCompatError

from ._case_models import case_folders

Record = dict[str, Any]

FIELDS = (
    "case",
    "transformers",
    "torch",
    "state",
    "was",
    "carried",
    "problems",
    "plain_state",
    "plain_problem",
    "plain_seconds",
    "sample",
    "difference",
    "calls",
    "seconds",
    "total_seconds",
    "megabytes",
    "applied",
    "used",
    "proofs",
    "date",
    "environment",
)
"""What a row of the page holds, in this order."""


@dataclass(frozen=True)
class Cell:
    """All results on one transformers and one torch.

    Attributes:
        transformers: the release.
        torch: the release.
        rows: the results, by case.
        environments: what was installed, by the digest that a result refers to.
    """

    transformers: str
    torch: str
    rows: dict[str, dict[str, Any]]
    environments: dict[str, dict[str, Any]]

    @cached_property
    def order(self) -> tuple[Version, Version]:
        """The place among other cells."""
        return Version(self.transformers), Version(self.torch)


def read_cells(folder: Path) -> list[Cell]:
    """Return the cells of a folder, newest first.

    Raises:
        ExportCompatError: there are no results, or a file is not one of ours.
        MissingExtraError: fastjsonschema is not installed.
    """
    contents = read_results(folder)
    cells = [Cell(*names, content["cases"], content["environments"]) for names, content in contents.items()]
    for cell in cells:
        _check(cell, folder / file_name(cell.transformers, cell.torch))
    return sorted(cells, key=lambda cell: cell.order, reverse=True)


def _check(cell: Cell, path: Path) -> None:
    """Refuse what the schema cannot: numbers that are no versions."""
    try:
        _ = cell.order
    except InvalidVersion as error:
        raise ExportCompatError(f"{path} is for no release ({error}); remove it and run its cell again") from error


def titles(cells: Iterable[Cell]) -> dict[str, str]:
    """Return the titles of all cases by name, in their order; a result of a case that is gone has its name."""
    known = {name: case.title for name, case in CASES.items()}
    gone = sorted({name for cell in cells for name in cell.rows} - known.keys())
    return {**known, **{name: name for name in gone}}


def newest_date(cells: Iterable[Cell]) -> str:
    """Return the date of the newest result; nothing if there is none."""
    return max((row["date"] for cell in cells for row in cell.rows.values()), default="")


def records(cells: list[Cell]) -> list[Record]:
    """Return a flat record for each case in each cell, also for those without a result; sorted, newest first."""
    cases = titles(cells).items()
    return [_record(cell, *item) for cell in cells for item in cases]


def _record(cell: Cell, case: str, title: str) -> Record:
    row = cell.rows.get(case, {"state": UNTESTED})
    environment = cell.environments.get(row.get("environment", ""), {})
    packages = dict(item.split("==", 1) for item in environment.get("packages", ()))
    return {
        **_fields(cell, case, row),
        "title": title,
        "modules": row.get("modules"),
        "python": environment.get("python"),
        **{f"{name}_installed": packages.get(name) for name in PACKAGES},
    }


def _fields(cell: Cell, case: str, row: dict[str, Any]) -> Record:
    """Return what `FIELDS` names."""
    where = {"case": case, "transformers": cell.transformers, "torch": cell.torch}
    plain = {f"plain_{name}": value for name, value in row.get("plain", {}).items()}
    found = {"problems": [], **row, **plain, **where, "difference": _finite(row.get("difference"))}
    found["proofs"] = proof_texts(row)
    return {name: found.get(name) for name in FIELDS}


def _finite(number: float | None) -> float | str | None:
    """Return a number as it is, and as a text what JSON has no number for."""
    return number if number is None or math.isfinite(number) else str(float(number))


class _Numbers:
    """Gives each value a number: the same one to equal values, in the order in which they come."""

    def __init__(self, values: Iterable[Hashable] = ()) -> None:
        self._found: dict[Hashable, int] = {}
        for value in values:
            self(value)

    def __call__(self, value: Hashable) -> int | None:
        """Return the number of a value; None has none."""
        return None if value is None else self._found.setdefault(value, len(self._found))

    def __iter__(self) -> Iterator[Hashable]:
        """Yield the values."""
        return iter(self._found)


class _Tables:
    """What many rows have in common, kept once."""

    def __init__(self, cells: list[Cell]) -> None:
        self.cases = _Numbers(titles(cells))
        self.transformers = _Numbers(_newest({cell.transformers for cell in cells} | {*releases("transformers")}))
        self.torch = _Numbers(_newest({cell.torch for cell in cells}))
        self.states = _Numbers(state.name for state in STATES)
        self.texts = _Numbers()
        self.specs = _Numbers()
        self.lists = _Numbers()
        self.packages = _Numbers()
        self.environments = _Numbers()

    def row(self, cell: Cell, case: str) -> list[Any]:
        """Return the values of `FIELDS`, with numbers for what stands in a table."""
        row = _fields(cell, case, cell.rows[case])
        installed = cell.environments[row["environment"]]
        tables = {"case": self.cases, "transformers": self.transformers, "torch": self.torch, "state": self.states}
        texts = ("was", "carried", "plain_state", "plain_problem", "sample", "date")
        row.update({name: number(row[name]) for name, number in tables.items()})
        row.update({name: self.texts(row[name]) for name in texts})
        row.update({name: self._ids(row[name]) for name in ("applied", "used")})
        row.update({name: [self.texts(text) for text in row[name]] for name in ("problems", "proofs")})
        row["environment"] = self.environments((installed["python"], tuple(map(self.packages, installed["packages"]))))
        row["difference"] = _short(row["difference"])
        return [row[name] for name in FIELDS]

    def _ids(self, ids: list[str] | None) -> int | None:
        return None if ids is None else self.lists(tuple(map(self.specs, ids)))


def page_data(cells: list[Cell]) -> Record:
    """Return what the page shows: rows of numbers, and the tables that these point into."""
    tables = _Tables(cells)
    loaded = case_folders(cell.rows for cell in cells)
    models = sorted({folder for folders in loaded.values() for folder in folders})
    rows = [tables.row(cell, case) for cell in cells for case in cell.rows]
    return {
        "states": [asdict(state) for state in STATES],
        "works": WORKS,
        "notThere": NOT_THERE,
        "cases": list(titles(cells).items()),
        "newest": newest_date(cells),
        "models": models,
        "loaded": [sorted(map(models.index, loaded.get(case, ()))) for case in titles(cells)],
        "fields": FIELDS,
        **{name: list(values) for name, values in vars(tables).items() if name not in ("cases", "states")},
        "rows": rows,
    }


def _newest(names: Iterable[str]) -> list[str]:
    return sorted(names, key=Version, reverse=True)


def _short(number: float | str | None) -> float | str | None:
    """Return a number with three digits, which are what people read."""
    return float(f"{number:.3g}") if isinstance(number, float) else number
