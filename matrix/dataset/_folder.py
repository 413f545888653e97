"""The folder that becomes `exportcompat-data`: written as a whole, and checked against its schema."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from exportcompat import __version__
from exportcompat._dataset import NOT_TESTED, OUTCOMES, SCHEMA, cells_of
from exportcompat._extras import require
from exportcompat.matrix._files import write_text
from exportcompat.matrix.cases import CASES
from exportcompat.matrix.reports import Cell, read_cells
from exportcompat.matrix.store import STATES, Results, file_name
from exportcompat.matrix.versions import releases
from exportcompat.patches import default_registry
from exportcompat.registry import ExportCompatError

from ._advisories import advisories, worst_first
from ._badges import badge
from ._proof_runs import runs_without
from ._result_files import NO_TYPE, Place, result_files, types_of
from ._spec_data import spec_data
from ._unmended import unmended

SCHEMA_FILE = Path(__file__).parents[1] / "dataset.schema.json"
_FOLDERS = {"results": "results", "advisories": "advisory", "badges": "badge"}
_KINDS = {"index.json": "index", "specs.json": "specs", **_FOLDERS}
"""What a file is in the schema, by its name or its folder."""

_OURS = {*_KINDS, "schema.json", "VERSION", "__init__.py", "__pycache__"}
"""What the folder may have in it already."""


def write_dataset(results: Path, out: Path, *, version: str = "") -> Iterator[str]:
    """Write the files of `exportcompat-data`.

    `index.json` says what there is. `results/TYPE.json` has the results of a model type, `specs.json` the specs with
    what is known of each release in their ranges, `advisories/ID.json` the known breakages in the OSV format,
    `badges/TYPE.json` what shields.io shows, and `schema.json` describes all of them. A result that was found with
    other code than that of today has `current: false`.

    Args:
        results: the folder of the result files.
        out: the folder to write, which is replaced; it may be missing.
        version: the version of the data; default: the number of the schema and the date of the newest result.

    Yields:
        A line for each kind of file, and one that says how many results are old.

    Raises:
        ExportCompatError: there are no results, a file is not one of ours, `out` is something else, or what was made
            does not fit the schema.
        MissingExtraError: fastjsonschema is not installed.
    """
    cells = read_cells(results)
    content = files_of(cells, current_results(results, cells), version)
    check(content)
    _replace(out, content)
    index = content["index.json"]
    for name in _FOLDERS:
        yield f"{out / name}: {sum(path.startswith(f'{name}/') for path in content)} files"
    yield f"{out / 'specs.json'}: {len(content['specs.json']['specs'])} specs"
    yield f"{index['version']}: {index['results']} results, {index['results'] - index['current']} of them by older code"


def current_results(folder: Path, cells: Sequence[Cell]) -> set[Place]:
    """Return the results that were found with the code of today: all that their key covers is as it was."""
    found: set[Place] = set()
    for cell in cells:
        kept = Results(folder / file_name(cell.transformers, cell.torch))
        names = [name for name in cell.rows if name in CASES and kept.is_current(CASES[name])]
        found |= {(cell.transformers, cell.torch, name) for name in names}
    return found


def files_of(cells: Sequence[Cell], current: set[Place], version: str = "") -> dict[str, Any]:
    """Return what is in each file, by its path."""
    registry, by_type = default_registry(), result_files(cells, current)
    runs = runs_without(cells, current)
    found = worst_first([*advisories(registry, runs), *unmended(cells, types_of(cells), current)])
    types = {name: cells_of(content) for name, content in by_type.items()}
    rows = [row for content in by_type.values() for row in content["results"]]
    newest = max((row["date"] for row in rows), default="")
    index = {
        "schema": SCHEMA,
        "version": version or f"{SCHEMA}.{newest.replace('-', '')}",
        "license": "CC0-1.0",
        "exportcompat": __version__,
        "date": newest,
        "results": len(rows),
        "current": sum(row["current"] for row in rows),
        "carried": sum("carried" in row for row in rows),
        "outcomes": {state.name: state.meaning for state in STATES if state.name in (*OUTCOMES, *NOT_TESTED)},
        "releases": {name: releases(name) for name in ("transformers", "torch")},
        "model_types": {name: _summary(content) for name, content in by_type.items()},
        "advisories": [item["id"] for item in found],
    }
    return {
        "index.json": index,
        "specs.json": {"schema": SCHEMA, "specs": spec_data(registry, runs)},
        **{f"results/{name}.json": content for name, content in by_type.items()},
        **{f"advisories/{item['id']}.json": item for item in found},
        **{f"badges/{name}.json": badge(name, item) for name, item in types.items() if name != NO_TYPE},
    }


def _summary(content: Mapping[str, Any]) -> dict[str, Any]:
    tasks = sorted({case["task"] for case in content["cases"].values()} - {""})
    return {"tasks": tasks, "cases": len(content["cases"]), "results": len(content["results"])}


def check(content: Mapping[str, Any]) -> None:
    """Check what is to be written.

    Raises:
        ExportCompatError: a file does not fit the schema.
        MissingExtraError: fastjsonschema is not installed.
    """
    schema = json.loads(SCHEMA_FILE.read_text("utf-8"))
    compiler = require("fastjsonschema", "all")
    kinds = {kind: compiler.compile({**schema, "$ref": f"#/definitions/{kind}"}) for kind in _KINDS.values()}
    for path, item in content.items():
        try:
            kinds[_KINDS[path.partition("/")[0]]](item)
        except ValueError as error:
            raise ExportCompatError(f"{path} does not fit {SCHEMA_FILE.name} ({error}); mend one of them") from error


def _replace(out: Path, content: Mapping[str, Any]) -> None:
    """Write a folder anew; one that was not written by this is left alone."""
    there = [item.name for item in out.iterdir()] if out.is_dir() else [out.name] * out.exists()
    if others := sorted({*there} - _OURS):
        raise ExportCompatError(f"{out} is there and has {', '.join(others)}; name another folder, or remove it")
    for name in _FOLDERS:
        shutil.rmtree(out / name, ignore_errors=True)
    for path, item in content.items():
        write_text(out / path, _text(item))
    write_text(out / "schema.json", SCHEMA_FILE.read_text("utf-8"))
    write_text(out / "VERSION", f"{content['index.json']['version']}\n")


def _text(item: Mapping[str, Any]) -> str:
    """Return JSON with a line for each result, which a difference of two files can show."""
    if "results" not in item or not isinstance(item["results"], list):
        return json.dumps(item, indent=1, allow_nan=False) + "\n"
    lines = [f"{json.dumps(name)}: {_lines(value)}" for name, value in item.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _lines(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value, allow_nan=False)
    return "[\n " + ",\n ".join(json.dumps(item, separators=(",", ":"), allow_nan=False) for item in value) + "\n]"
