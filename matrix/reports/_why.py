"""One result in words: how a case is on given versions, why, and how to see it again."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.version import Version

from exportcompat._model_names import find_model
from exportcompat.matrix.cases import CASES
from exportcompat.matrix.store import STATES, Installed, Results, file_name, proof_texts, read_results
from exportcompat.registry import ExportCompatError, did_you_mean

from ._case_models import case_folders

_NEAR = 3
"""Cells that are named where the one asked for has no result."""


_CELLS = Mapping[tuple[str, str], dict[str, Any]]


def why(folder: Path, name: str, transformers: str, torch: str) -> Iterator[str]:
    """Yield what is known of a case on given versions, or of all cases of a model, a line each.

    Args:
        folder: the result files.
        name: of a case, or of a model: its type, a class, a folder with a configuration, or a name of the hub.
        transformers: a release.
        torch: a release.

    Raises:
        ExportCompatError: there is no such case or model, there are no results, or a file is not whole.
    """
    cells = read_results(folder)
    if name in CASES:
        yield from _case(folder, cells, name, transformers, torch)
        return
    known = case_folders(content["cases"] for content in cells.values())
    found, guess = _of_model(name, known)
    yield from filter(None, [guess])
    if len(found) == 1:
        yield from _case(folder, cells, found[0], transformers, torch)
        return
    rows = cells.get((transformers, torch), {}).get("cases", {})
    yield f"{name} on transformers {transformers}, torch {torch}; give one of these names to see more:"
    yield from (f"  {case + ':':<24}{rows.get(case, {}).get('state', 'has no result')}" for case in found)


def _of_model(name: str, known: Mapping[str, set[str]]) -> tuple[list[str], str]:
    """Return the cases of a model, and how its name was taken: those that have loaded little else besides.

    Raises:
        ExportCompatError: there is no such model, or no case of it.
    """
    hint = did_you_mean(name, CASES)
    folders = {folder for loaded in known.values() for folder in loaded}
    try:
        named = find_model(name, folders)
    except ExportCompatError as error:
        raise ExportCompatError(f"there is no case {name!r}{hint}, and {error}") from None
    main = named.folders[0]
    found = {case: len(loaded) for case, loaded in known.items() if main in loaded and case in CASES}
    if not found:
        raise ExportCompatError(f"no case is of the model {main}{hint or '; `exportcompat list --model` says more'}")
    return [case for case in CASES if found.get(case) == min(found.values())], named.guess


def _case(folder: Path, cells: _CELLS, case: str, transformers: str, torch: str) -> Iterator[str]:
    content = cells.get((transformers, torch), {})
    row = content.get("cases", {}).get(case)
    yield f"{CASES[case].title} ({case}) on transformers {transformers}, torch {torch}"
    if row is None:
        yield "  has no result"
        yield from (f"  near it: {line}" for line in _near(cells, case, transformers, torch))
    else:
        is_current = Results(folder / file_name(transformers, torch)).is_current(CASES[case])
        yield from (f"  {name + ':':<13}{text}" for name, text in _facts(row, content, is_current) if text)
    yield f"  see it again: nox -s matrix -- --transformers {transformers} --torch {torch} --case {case} --fresh"


def _facts(row: dict[str, Any], content: dict[str, Any], is_current: bool) -> Iterator[tuple[str, str]]:
    found = content["environments"][row["environment"]]
    versions = Installed(found["python"], tuple(found["packages"])).versions
    plain = row.get("plain", {"state": "", "problem": ""})
    yield "state", next(f"{state.name}: {state.meaning}" for state in STATES if state.name == row["state"])
    yield "before", row.get("was", "")
    yield "carried", f"not run: same program as {row['carried']}" if "carried" in row else ""
    yield from (("problem", text) for text in row["problems"])
    yield "unpatched", ": ".join(filter(None, (plain["state"], plain["problem"])))
    yield "used", ", ".join(row.get("used", []))
    yield "applied too", ", ".join(name for name in row.get("applied", []) if name not in row["used"])
    yield from (("proof", text) for text in proof_texts(row))
    if row.get("calls"):
        yield "compared", f"{row['calls']} calls, largest difference of a logit {row['difference']:.1e}"
    if "total_seconds" in row:
        yield "cost", f"{row['total_seconds']} s, {row.get('megabytes', 0)} MB"
    yield "found", f"{row['date']}, with {', '.join(f'{name} {text}' for name, text in versions.items())}"
    yield "age", "" if is_current else "something that it depends on has changed since"


def _near(cells: _CELLS, case: str, transformers: str, torch: str) -> Iterator[str]:
    """Yield the states in the cells before and after, of the same torch first."""
    known = [cell for cell, content in cells.items() if case in content["cases"]]
    known.sort(key=lambda cell: (cell[1] != torch, _distance(cell[0], transformers), _distance(cell[1], torch)))
    for cell in known[:_NEAR]:
        yield f"transformers {cell[0]}, torch {cell[1]}: {cells[cell]['cases'][case]['state']}"


def _distance(found: str, wanted: str) -> int:
    """Return how far apart two releases are, roughly: a major counts for a hundred minors."""
    pairs = [(Version(text).major, Version(text).minor, Version(text).micro) for text in (found, wanted)]
    first, second = (10_000 * major + 100 * minor + micro for major, minor, micro in pairs)
    return abs(first - second)
