"""The results of each model type as plain data: one file for a type, with what many of its results share once."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from exportcompat._dataset import SCHEMA
from exportcompat.matrix.reports import Cell, records, titles
from exportcompat.matrix.store import PACKAGES, UNTESTED

from ._case_facts import facts_of, model_type_of

Record = dict[str, Any]
Place = tuple[str, str, str]
"""Transformers, torch and case."""

_VERSIONS = (*PACKAGES, "onnx-ir", "protobuf", "numpy")
"""Packages whose versions a result names."""

NO_TYPE = "torch"
"""The name for models that are not of transformers: what they show is of torch alone."""


def result_files(cells: Sequence[Cell], current: Collection[Place]) -> dict[str, Record]:
    """Return what is in the file of each model type, by the type.

    The records are those of the report, `reports.records`, of which the page is made too.

    Args:
        cells: the results.
        current: results that were found with the code of today.
    """
    found: dict[str, list[Record]] = defaultdict(list)
    types = types_of(cells)
    environments = {name: item for cell in cells for name, item in cell.environments.items()}
    for record in records(list(cells)):
        if record["state"] != UNTESTED and record["case"] in types:
            found[types[record["case"]]].append(record)
    names = titles(cells)
    return {
        model_type: _file(model_type, found[model_type], names, environments, current) for model_type in sorted(found)
    }


def types_of(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the model type of each case; a case of which no release has the model is in no file."""
    loaded: dict[str, list[list[str]]] = defaultdict(list)
    for cell in cells:
        for case, row in cell.rows.items():
            if "modules" in row:
                loaded[case].append(row["modules"])
    return {case: model_type_of(case, modules) or NO_TYPE for case, modules in loaded.items()}


class _Shared:
    """Gives each value a number: the same one to equal values, in the order in which they come."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def __call__(self, value: Any) -> int:
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)


def _file(
    model_type: str,
    found: list[Record],
    names: Mapping[str, str],
    environments: Mapping[str, Record],
    current: Collection[Place],
) -> Record:
    shared = {name: _Shared() for name in ("environments", "patch_sets", "problems")}
    rows = [_row(record, environments, current, shared) for record in found]
    cases = dict.fromkeys(record["case"] for record in found)
    return {
        "schema": SCHEMA,
        "model_type": model_type,
        "cases": {case: facts_of(case, names[case], model_type) for case in cases},
        **{name: item.values for name, item in shared.items()},
        "results": rows,
    }


def _row(
    record: Record,
    environments: Mapping[str, Record],
    current: Collection[Place],
    shared: Mapping[str, Callable[[Any], int]],
) -> Record:
    """Return one result; what is not known is left out."""
    place = (record["transformers"], record["torch"], record["case"])
    numbers = {
        "environment": shared["environments"](_versions(environments[record["environment"]])),
        "patches": shared["patch_sets"](record["used"]) if record["used"] is not None else None,
        "problem": _problem(record["problems"], shared["problems"]),
        "plain_problem": _problem([record["plain_problem"]], shared["problems"]),
    }
    known = {name: record[name] for name in ("difference", "calls", "was", "carried", "sample")}
    found = {
        **{name: record[name] for name in ("case", "transformers", "torch", "date")},
        "outcome": record["state"],
        "plain": record["plain_state"],
        **known,
        **numbers,
        "current": place in current,
    }
    return {name: value for name, value in found.items() if value is not None}


def _problem(texts: Sequence[str | None], number: Callable[[Any], int]) -> int | None:
    first = next(iter(texts), None)
    return number(first) if first else None


def _versions(environment: Record) -> dict[str, str]:
    """Return the versions that a result names; a local part such as `+cpu` is none."""
    installed = dict(item.split("==", 1) for item in environment["packages"])
    return {"python": environment["python"], **dict(_public(installed))}


def _public(installed: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in _VERSIONS:
        # Old releases of pip list names with an underscore.
        text = installed.get(name, installed.get(name.replace("-", "_")))
        if text:
            yield name, text.partition("+")[0]
