"""Make and judge files: a line for each result as it comes, from where it stopped."""

import argparse
import fnmatch
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from exportcompat.matrix._files import held, write_text
from exportcompat.matrix._fork_server import NoResultError, run_forked
from exportcompat.registry import ExportCompatError, installed_version

from ._makers import MAKERS, Maker
from ._models import MODELS, JudgedModel
from ._result import check, key_of, versions_of

Row = Mapping[str, Any]
Name = tuple[str, str, str]
"""The transformers, the maker and the model of a result."""


def run_judge(arguments: argparse.Namespace) -> int:
    """Make and judge the files that have no result that is current, and print a line for each; return 0.

    Raises:
        ExportCompatError: no maker that is installed matches, or no model.
    """
    known = read_results(arguments.results)
    makers, models = _makers(arguments.maker), _matching(MODELS, arguments.model, "model")
    work = [
        (model, [maker for maker in makers if arguments.fresh or not _is_current(maker, model, known)])
        for model in models
    ]
    count = sum(len(chosen) for _, chosen in work)
    print(f"{count} to make and judge, {len(known)} results in {arguments.results}", flush=True)
    for model, chosen in work:
        if arguments.list:
            print("".join(f"{maker.name} {model.name}\n" for maker in chosen), end="")
        elif chosen:
            for row in _rows(model, chosen, arguments.timeout):
                _keep(arguments.results, row)
                print(_line(row), flush=True)
    return 0


def read_results(path: Path) -> dict[Name, dict[str, Any]]:
    """Return the results of a file by transformers, maker and model; none where there is no file."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {_name(row): row for row in (json.loads(line) for line in lines if line.strip())}


def _name(row: Row) -> Name:
    return str(row["versions"]["transformers"]), row["maker"], row["model"]


def _keep(path: Path, row: dict[str, Any]) -> None:
    """Write one line for each result, in order; others may judge other files meanwhile."""
    with held(path.parent):
        known = {**read_results(path), _name(row): row}
        write_text(path, "".join(json.dumps(known[name]) + "\n" for name in sorted(known)))


def _rows(model: JudgedModel, makers: list[Maker], timeout: float) -> Iterator[dict[str, Any]]:
    """Yield the results of one model, which is saved once for all makers; none where this release does not have it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            problem = run_forked(_save, (model, Path(folder)), timeout)
        except NoResultError as error:
            problem = str(error)
        if problem:
            print(f"{model.name} is left out: {problem}", flush=True)
            return
        for maker in makers:
            yield check(maker, model, Path(folder), timeout)


def _save(model: JudgedModel, folder: Path) -> str:
    """Save a model; return what is against it, empty if nothing is."""
    try:
        model.save(folder)
    except ExportCompatError as error:
        return str(error)
    return ""


def _makers(patterns: list[str]) -> list[Maker]:
    """Return the makers that match and can be run here; say which cannot.

    Raises:
        ExportCompatError: none can.
    """
    found = []
    for maker in _matching(MAKERS, patterns, "maker"):
        missing = maker.missing()
        if missing:
            print(f"{maker.name} is left out: it needs {', '.join(missing)}", flush=True)
        else:
            found.append(maker)
    if not found:
        raise ExportCompatError("no maker that was asked for is installed; `nox -s judge` installs all")
    return found


def _matching(known: Mapping[str, Any], patterns: list[str], kind: str) -> list[Any]:
    found = [item for name, item in known.items() if not patterns or any(fnmatch.fnmatch(name, p) for p in patterns)]
    if not found:
        raise ExportCompatError(f"no {kind} matches {' '.join(patterns)}; {kind}s: {', '.join(known)}")
    return found


def _is_current(maker: Maker, model: JudgedModel, known: Mapping[Name, Row]) -> bool:
    """Say whether there is a result for what is installed, and all that it depends on is as it was."""
    transformers = installed_version("transformers")
    row = known.get((str(transformers and transformers.public), maker.name, model.name))
    return row is not None and row["versions"] == versions_of(maker) and row["key"] == key_of(maker, model)


def _line(row: Row) -> str:
    said = "; ".join(f"{' '.join(item['options']) or 'all'} {item['verdict']}" for item in row["verdicts"])
    return f"{row['maker']:13} {row['model']:14} {row['outcome']:12} {said or row['error'][:90]} ({row['seconds']} s)"
