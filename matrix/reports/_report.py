"""The report: a page for people, Markdown for the documentation, JSON for machines."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from exportcompat.matrix._files import write_text
from exportcompat.matrix.store import STATES, UNTESTED
from exportcompat.registry import ExportCompatError

from ._seasons import season_lines
from ._summary import summary
from ._tables import Cell, newest_date, page_data, read_cells, records, titles

_TEMPLATE = Path(__file__).parents[1] / "report.html"
_MARK = "@DATA@"
_BROKEN = ("wrong", "fails", "uninstallable", "unsupported")
_MARK_CARRIED = "="
"""Behind the letter of a result that is carried."""
_LEGEND_CARRIED = f"- {_MARK_CARRIED} behind a letter: not run; the same program and answers as on a release that was"
_SHOWN = 160
"""Characters of a problem that Markdown shows."""


def write_report(results: Path, out: Path, kind: str) -> None:
    """Write the results of a folder as one file; it is replaced as a whole or not at all.

    `html` is a page that needs nothing else. `md` is for documentation. `json` is a list of flat records, one for each
    case in each cell that has a file, newest releases first and cases in their order. Each record has the same fields:

    - `transformers`, `torch`, `case`, `title`;
    - `state`, and `was`: how it worked before it stopped to;
    - `carried`: the transformers whose result it is, because the captured programs and eager's answers are the same;
      null where it was run;
    - `problems`: class and first line of each, the worst first;
    - `plain_state`, `plain_problem`, `plain_seconds`: without patches;
    - `sample`: batch, past and new tokens that were traced;
    - `difference`: the largest of a logit; a number, or the text `inf` or `nan`;
    - `calls`: how many were compared; `seconds`, `total_seconds`, `megabytes`, `date`;
    - `applied`, `used`, `modules`: ids of specs, and the modules of models that were loaded;
    - `proofs`: at the end of a range, a text for each spec that was left out;
    - `environment`: the digest by which the result file refers to what was installed; `python`;
    - `torch_installed` and the same for transformers, onnx, onnxscript and onnxruntime: the exact versions.

    What is not known is null. A case without a result has the state `untested`.

    Args:
        results: the folder of the result files.
        out: the file to write; its folder is made.
        kind: `html`, `md` or `json`.

    Raises:
        ExportCompatError: there is no such kind, there are no results, a result file is not one of ours, or the file
            cannot be written.
        MissingExtraError: fastjsonschema is not installed.
    """
    if kind not in _KINDS:
        raise ExportCompatError(f"there is no report of the kind {kind!r}; use one of {', '.join(_KINDS)}")
    _write(out, _KINDS[kind](results))


def _write(path: Path, text: str) -> None:
    if path.is_dir():
        raise ExportCompatError(f"the report cannot be written to {path}, which is a folder; name a file")
    try:
        write_text(path, text)
    except OSError as error:
        raise ExportCompatError(f"the report cannot be written to {path} ({error}); name another file") from error


def _html(results: Path) -> str:
    """Return the page. Its data has no `<`, so nothing in a result can end the element that holds them."""
    data = json.dumps(page_data(read_cells(results)), separators=(",", ":"), allow_nan=False)
    return _TEMPLATE.read_text("utf-8").replace(_MARK, data.replace("<", "\\u003c"), 1)


def _json(results: Path) -> str:
    """Return the records, one in each line."""
    lines = [json.dumps(record, allow_nan=False) for record in records(read_cells(results))]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _markdown(results: Path) -> str:
    cells = read_cells(results)
    legend = [f"- {_letter(state.name)}: {state.name}, {state.meaning}" for state in STATES]
    legend += [_LEGEND_CARRIED] if any("carried" in row for cell in cells for row in cell.rows.values()) else []
    sections = [line for torch in _torches(cells) for line in _section(torch, cells)]
    broken = list(_broken(cells)) or ["Nothing that was tested."]
    lines = [
        "# What works",
        "",
        _intro(cells),
        "",
        summary(results),
        "",
        *legend,
        "",
        *season_lines(results),
        *sections,
    ]
    return "\n".join([*lines, "## What does not work", "", *broken, ""])


_NAMED = 12
"""Untested cases that are named; more of them are counted."""


def _intro(cells: list[Cell]) -> str:
    count = sum(len(cell.rows) for cell in cells)
    what = f"{count} results of {len(titles(cells))} cases, the newest of {newest_date(cells)}."
    same = sum("carried" in row for cell in cells for row in cell.rows.values())
    told = (
        f" {count - same} were run; {same} are carried from another transformers with the same program." if same else ""
    )
    return f"{what}{told} A share is of those tested cases whose model the release has."


def _torches(cells: list[Cell]) -> list[str]:
    """Return the releases of torch, newest first."""
    newest = sorted(cells, key=lambda cell: cell.order[1], reverse=True)
    return list(dict.fromkeys(cell.torch for cell in newest))


def _section(torch: str, cells: list[Cell]) -> Iterator[str]:
    """Yield the table of one torch: cases down, releases of transformers across."""
    columns = [cell for cell in cells if cell.torch == torch]
    tested = {name for cell in columns for name in cell.rows}
    yield from (f"## torch {torch}", "")
    yield "| case | " + " | ".join(cell.transformers for cell in columns) + " |"
    yield "|---" + "|:-:" * len(columns) + "|"
    for name in titles(cells):
        if name in tested:
            # A bar would end the cell even in code.
            first = _code(name).replace("|", "\\|")
            yield f"| {first} | " + " | ".join(_shown(cell, name) for cell in columns) + " |"
    yield ""
    left = [_code(name) for name in titles(cells) if name not in tested]
    if left:
        names = ", ".join(left) if len(left) <= _NAMED else f"{len(left)} of {len(titles(cells))} cases"
        yield from (f"Untested with this torch: {names}.", "")


def _state(cell: Cell, case: str) -> str:
    row = cell.rows.get(case)
    return row["state"] if row else UNTESTED


def _shown(cell: Cell, case: str) -> str:
    """Return the letter of a result, with a mark if it was not run here."""
    return _letter(_state(cell, case)) + _MARK_CARRIED * ("carried" in cell.rows.get(case, {}))


def _letter(state: str) -> str:
    """Return the letter of a state; that of wrong numbers is bold."""
    letter = next(item.letter for item in STATES if item.name == state)
    return f"**{letter}**" if state == "wrong" else letter


def _broken(cells: list[Cell]) -> Iterator[str]:
    """Yield a line for each case, torch and problem, the worst states first; it lists the releases of transformers."""
    found: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for cell in cells:
        for case, row in cell.rows.items():
            if row["state"] in _BROKEN:
                found[row["state"], case, cell.torch, _reason(row)].append(cell.transformers)
    order = list(titles(cells))
    for item in sorted(found, key=lambda item: (_BROKEN.index(item[0]), order.index(item[1]))):
        state, case, torch, reason = item
        yield f"- **{state}**: {_code(case)}, torch {torch}, transformers {', '.join(found[item])}{reason}"


def _reason(row: Mapping[str, Any]) -> str:
    was = f" (was {row['was']})" if "was" in row else ""
    was += f" (same program as {row['carried']})" if "carried" in row else ""
    return was + (f": {_code(row['problems'][0][:_SHOWN])}" if row["problems"] else "")


def _code(text: str) -> str:
    """Return a text as code on one line, so that Markdown takes nothing in it for its own."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    ticks = "`"
    while ticks in line:
        ticks += "`"
    return f"{ticks} {line} {ticks}" if "`" in line else f"{ticks}{line}{ticks}"


_KINDS: dict[str, Callable[[Path], str]] = {"html": _html, "md": _markdown, "json": _json}
