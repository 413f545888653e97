"""Run the zoo: each model in a process of its own, a line for each result as it comes, from where it stopped."""

import argparse
import fnmatch
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from exportcompat.matrix._fork_server import NoResultError, run_forked
from exportcompat.registry import installed_version

from ._catalogue import Entry, entries
from ._outcome import FAILS, Outcome, outcome_of


def run_zoo(arguments: argparse.Namespace) -> int:
    """Run the models that have no result yet, and print a line for each; return 0."""
    path = results_file(arguments.results, arguments.dtype)
    known = read_results(path)
    chosen = [entry for entry in entries() if _is_chosen(entry, arguments, known)]
    print(f"{len(chosen)} models to run, {len(known)} results in {path}", flush=True)
    if arguments.list:
        print("\n".join(entry.name for entry in chosen))
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    for count, outcome in enumerate(_outcomes(chosen, arguments), 1):
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(outcome.to_dict()) + "\n")
        print(f"[{count}/{len(chosen)}] {outcome.seconds:5.1f} s  {outcome.name}: {outcome.outcome}", flush=True)
    _write_sorted(path)
    return 0


def results_file(folder: Path, dtype: str | None = None) -> Path:
    """Return the file of the installed transformers and torch, and of a type of half precision."""
    names = ("transformers", "torch")
    # A build of torch for another device, which a local part names, is the same release.
    versions = [version.public for version in map(installed_version, names) if version is not None]
    parts = [part for pair in zip(names, versions, strict=True) for part in pair] + ([dtype] if dtype else [])
    return folder / f"{'-'.join(parts)}.jsonl"


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """Return the results of a file by name; the last one of a name counts."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {item["name"]: item for item in (json.loads(line) for line in lines if line.strip())}


def _is_chosen(entry: Entry, arguments: argparse.Namespace, known: dict[str, dict[str, Any]]) -> bool:
    if not _matches(entry.task, arguments.task) or not _matches(entry.model_type, arguments.type):
        return False
    found = known.get(entry.name)
    return found is None or arguments.fresh or found["outcome"] in arguments.again


def _matches(name: str, patterns: list[str]) -> bool:
    return not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _outcomes(chosen: list[Entry], arguments: argparse.Namespace) -> Iterator[Outcome]:
    with ThreadPoolExecutor(arguments.jobs) as pool:
        yield from pool.map(lambda entry: _in_a_process(entry, arguments.dtype, arguments.timeout), chosen)


def _in_a_process(entry: Entry, dtype: str | None, timeout: float) -> Outcome:
    try:
        found: Outcome = run_forked(outcome_of, (entry, dtype), timeout)
    except NoResultError as error:
        found = Outcome(name=entry.name, architecture=entry.architecture, outcome=FAILS, reason=str(error))
    return found


def _write_sorted(path: Path) -> None:
    """Write one line for each model, in order, so that versions of the file can be compared."""
    found = read_results(path)
    path.write_text("".join(json.dumps(found[name]) + "\n" for name in sorted(found)), "utf-8")
