"""The quickstart: does it work here? Every shown case without and with patches, as a table."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

from exportcompat._extras import require
from exportcompat.matrix.cases import CASES, Case
from exportcompat.registry import installed_version

from ._subprocess_check import run_check

Comparison = tuple[dict[str, Any], dict[str, Any]]
_PACKAGES = ("torch", "transformers", "onnxscript", "onnxruntime")


def quickstart() -> int:
    """Print progress and a table; return 0 if every case works with patches.

    Raises:
        MissingExtraError: rich, torch, transformers, onnxscript or onnxruntime is not installed.
    """
    console = _console()
    for package in _PACKAGES:
        require(package, "all")
    versions = ", ".join(f"{name} {installed_version(name)}" for name in _PACKAGES)
    cases = [case for case in CASES.values() if case.shown]
    console.print(f"{len(cases)} cases, each exported without and with patches ({versions})")
    begin, pairs = time.monotonic(), {}
    with console.status("exporting"):
        for case, pair in _run(cases):
            pairs[case.name] = pair
            seconds = time.monotonic() - begin
            console.print(f"[{len(pairs)}/{len(cases)}] {seconds:3.0f} s  {_line(case, pair)}", markup=False)
    console.print(_table([(case, pairs[case.name]) for case in cases]))
    return _verdict(console, pairs)


def _console() -> Any:
    console = require("rich.console", "all").Console()
    # Where nobody looks at a terminal, as in a log, there is no width to keep to.
    return console if console.is_terminal else require("rich.console", "all").Console(width=130)


def _run(cases: list[Case]) -> Iterator[tuple[Case, Comparison]]:
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        jobs: dict[Future[Comparison], Case] = {pool.submit(_check_case, case): case for case in cases}
        for job in as_completed(jobs):
            yield jobs[job], job.result()


def _check_case(case: Case) -> Comparison:
    return run_check(case.name, patched=False), run_check(case.name, patched=True)


def _line(case: Case, pair: Comparison) -> str:
    plain, patched = pair
    return f"{case.title}: without patches {_plain(plain)}, with patches {patched['state']}"


def _plain(outcome: dict[str, Any]) -> str:
    return "native" if outcome["state"] == "works" else str(outcome["state"])


def _table(rows: list[tuple[Case, Comparison]]) -> Any:
    table = require("rich.table", "all").Table(title="exportcompat")
    for name in ("case", "without patches", "with patches", "largest difference", "seconds"):
        table.add_column(name, justify="right" if name in ("largest difference", "seconds") else "left")
    table.add_column("specs used", overflow="fold")
    for case, (plain, patched) in rows:
        difference = patched["difference"]
        shown = "-" if difference is None else f"{difference:.1e}"
        used = "\n".join(patched["used"])
        table.add_row(case.title, _plain(plain), patched["state"], shown, f"{patched['seconds']:.1f}", used)
    return table


def _verdict(console: Any, pairs: dict[str, Comparison]) -> int:
    failed = {name: patched for name, (_, patched) in pairs.items() if patched["state"] != "works"}
    for name, patched in failed.items():
        console.print(f"{name} {patched['state']}: {'; '.join(patched['problems'][:3])}", markup=False)
    if not failed:
        console.print("Every case works with patches: one graph each, checked at shapes that the export did not see.")
    return 1 if failed else 0
