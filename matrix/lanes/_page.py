"""The page of the lanes: what each mends, what it does not, and the lines that a user writes."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from exportcompat.matrix._files import write_text
from exportcompat.matrix.cases import find_case

from ._catalogue import CASES, LANES, cases_of
from ._driver import read_results
from ._lane import Lane
from ._result import CANNOT, FAILS, WORKS, WRONG

Row = Mapping[str, Any]

_SHOWN = 260
"""Characters of a problem that the page has."""

_INTRODUCTION = """# Lanes: right beyond ONNX

`apply_patches()` goes around any export. A lane is a way to export and to run the result. Each is tried with the same
tiny models, without patches and with them, and what it made is compared with eager in a process that has exported
nothing: a first call, decoding, chunks on a filled cache, batches of 1 and 3, left padding, lengths on both sides of
every limit, as far as the lane has them. Every element has to be within 1e-3, and the next tokens the same. Without
patches caches are taken apart all the same, since every exporter has pytree nodes of its own.

| word | what it says |
|---|---|
| native | right without patches, and with them |
| patched | right with patches only |
| wrong | there is a result, and it computes something else than eager, or stops at other lengths |
| fails | no result |
| upstream-cannot | the model is captured right, and the lane's own tools refuse it |
| - | no result is kept yet, or the lane is not tried with it |
"""
_COMMANDS = """
```sh
nox -s lanes                                                          # what has no current result
nox -s "lanes(transformers='5.24.0')" -- --lane openvino              # one lane
python -m exportcompat.matrix lanes --page docs/lanes.md
```

The models have random weights and two layers; what they stand for is in the table. Lanes need releases of transformers
that do not go together, so that `nox -s lanes` is a session for each.
"""


def write_page(results: Path, page: Path) -> int:
    """Write the page of a file of results; return 0."""
    write_text(page, page_of(read_results(results)))
    return 0


def page_of(rows: Mapping[tuple[str, str], Row]) -> str:
    """Return the page as Markdown."""
    lanes = list(LANES.values())
    parts = [_INTRODUCTION, *_overview(lanes, rows), _COMMANDS]
    for lane in lanes:
        parts += _section(lane, [rows[lane.name, name] for name in cases_of(lane) if (lane.name, name) in rows])
    return "\n".join(parts).rstrip() + "\n"


def _overview(lanes: list[Lane], rows: Mapping[tuple[str, str], Row]) -> Iterator[str]:
    """Yield a table: a line for each case, a column for each lane."""
    yield f"| model | {' | '.join(lane.name for lane in lanes)} |"
    yield f"|---|{'---|' * len(lanes)}"
    for name in CASES:
        cells = (rows.get((lane.name, name), {}).get("state", "") for lane in lanes)
        yield f"| {find_case(name).title} | {' | '.join(map(_cell, cells))} |"


def _cell(state: str) -> str:
    return f"**{state}**" if state in (WRONG, FAILS, CANNOT) else state or "-"


def _section(lane: Lane, rows: list[Row]) -> Iterator[str]:
    yield f"## {lane.name}: {lane.title}"
    yield ""
    yield f"```python\n{lane.snippet.rstrip()}\n```"
    yield ""
    yield f"What a result takes: {lane.how_dynamic}."
    yield ""
    yield from filter(None, [lane.notes])
    if not rows:
        yield f"No result is kept yet: `nox -s lanes -- --lane {lane.name}`."
        yield ""
        return
    yield f"Run with {_versions(rows)}."
    yield ""
    yield from _mended(rows)
    yield from _table(rows)
    yield from _remaining(rows)


def _versions(rows: Iterable[Row]) -> str:
    found = {", ".join(f"{name} {version}" for name, version in row["versions"].items()) for row in rows}
    return "; ".join(sorted(found))


def _mended(rows: list[Row]) -> Iterator[str]:
    """Yield what patches mend, and where they do harm."""
    mended = [find_case(row["case"]).title for row in rows if row["state"] == "patched"]
    harmed = [find_case(row["case"]).title for row in rows if _is_harmed(row)]
    yield f"**Patches mend:** {'; '.join(mended) or 'nothing here'}."
    yield ""
    if harmed:
        yield f"**Right without patches alone:** {'; '.join(harmed)}."
        yield ""


def _is_harmed(row: Row) -> bool:
    return bool(row["without"]["state"] == WORKS and row["with"]["state"] != WORKS)


def _table(rows: list[Row]) -> Iterator[str]:
    yield "| model | without | with | largest difference | higher-order operators |"
    yield "|---|---|---|---:|---|"
    for row in rows:
        half = row["with"]
        difference = "" if half["difference"] is None else f"{half['difference']:.1e}"
        operators = ", ".join(f"`{name}`" for name in half["higher_order"])
        title = find_case(row["case"]).title
        yield f"| {title} | {_half(row['without'])} | {_half(half)} | {difference} | {operators} |"
    yield ""


def _half(half: Row) -> str:
    """Return what came of an export, with where it stopped."""
    stage = f" ({half['stage']})" if half["state"] == FAILS else ""
    off = half["difference"]
    return f"{half['state']}{stage}" if half["state"] != WRONG or off is None else f"wrong by {off:.2g}"


def _remaining(rows: list[Row]) -> Iterator[str]:
    """Yield what is said where patches do not make it right."""
    wrong = [row for row in rows if row["with"]["state"] != WORKS]
    if wrong:
        yield "What it does not do:"
        yield ""
    for row in wrong:
        yield f"- {find_case(row['case']).title}: {_problem(row['with'])}"
    if wrong:
        yield ""


def _problem(half: Row) -> str:
    """Return the first problem as code, short, on one line."""
    words = " ".join("".join(half["problems"][:1]).split()).replace("`", "'").replace("|", "\\|")
    return f"`{words if len(words) <= _SHOWN else words[:_SHOWN] + ' ...'}`"
