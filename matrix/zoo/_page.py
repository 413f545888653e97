"""The page of the zoo: how many types of each task are right, and what is known of the others."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from exportcompat._extras import parse_toml
from exportcompat.matrix._files import write_text

from ._outcome import NOT_BUILT, NOT_RUN, OUTCOMES, RIGHT
from ._run import read_results

Row = Mapping[str, Any]

_CAUSES = Path(__file__).with_name("causes.toml")
_WITHOUT = "of these without a cache"
"""Of those that are right: what a call without a word about a cache makes of a model whose cache no graph can have."""
_SHOWN = 220
"""Characters of a reason that the page has."""
_NAME = re.compile(r"transformers-(?P<transformers>.+)-torch-(?P<torch>[^-]+)(-(?P<dtype>.+))?")
_INTRODUCTION = """# The zoo: every model type

Every model type that the auto classes of transformers list is built tiny from its configuration, by general rules and
the exceptions in `matrix/zoo/rules.toml`, with random weights. It is exported by the one call of a user,
`export(model, inputs, folder)`, and compared with eager by the comparison that every export has: at shapes that the
export did not see, and for a decoder over whole conversations, each element within 1e-3. Each type has a process of its
own. A class of models that several auto classes list is run once, for the first task; where a type has two classes for
one task, the second is under the name of its auto class. The tables have what was run: of other tasks, such as
classification of texts and bare models, some types alone; `nox -s zoo -- --list` says the rest.

```sh
nox -s zoo                                        # what has no result yet, of a new release too
nox -s zoo -- --task text-generation-with-past    # one task
nox -s zoo -- --again fails                       # what failed, once more
nox -s zoo -- --dtype float16                     # in half precision
python -m exportcompat.matrix zoo --page docs/zoo.md
```

| word | what it says |
|---|---|
| right | exported, and every call is like eager's |
| of these without a cache | there is none, or none that a graph can have: a file computes the whole text each time |
| wrong | there is a file, and a call is not: other numbers, or ONNX Runtime stops |
| refused | `export` says before it writes anything what it cannot do |
| fails | no file |
| too small to tell | nothing differs, and the outputs are so small that zeros would pass |
| upstream cannot run | `generate` of transformers itself raises an error |
| not built | no tiny model runs in eager: the reason is below |

A plain `torch.onnx.export` of what is not right is tried too; where it is right, the list says so. What has no
result yet is not in the tables: `nox -s zoo -- --list` names it.
"""


def write_page(results: Path, page: Path) -> int:
    """Write the page of all result files of a folder; return 0."""
    # The newest release comes first, and each in float32 before it is in half precision.
    files = sorted(sorted(results.glob("*.jsonl"), key=attrgetter("stem")), key=_versions, reverse=True)
    write_text(page, "\n".join([_INTRODUCTION, *(line for file in files for line in _section(file))]).rstrip() + "\n")
    return 0


def _section(file: Path) -> Iterator[str]:
    """Yield the lines for one pair of versions."""
    rows = list(read_results(file).values())
    found = _NAME.fullmatch(file.stem)
    yield (_title(**found.groupdict()) if found else f"## {file}")
    yield ""
    yield from _table(rows)
    yield ""
    yield from _without_cache(rows)
    causes = parse_toml(_CAUSES.read_text("utf-8"))
    for outcome in OUTCOMES:
        chosen = sorted((row for row in rows if row["outcome"] == outcome), key=lambda row: str(row["name"]))
        if chosen and outcome != RIGHT:
            yield from _list(outcome, chosen, causes)


def _versions(file: Path) -> str:
    found = _NAME.fullmatch(file.stem)
    return f"{found['transformers']} {found['torch']}" if found else file.stem


def _title(transformers: str, torch: str, dtype: str | None) -> str:
    return f"## transformers {transformers}, torch {torch}{f', {dtype}' if dtype else ''}"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table: a line for each task, and one for all; the share is of what was built and upstream runs."""
    heads = ("types", RIGHT, _WITHOUT, *OUTCOMES[1:], "right of what runs")
    yield f"| task | {' | '.join(heads)} |"
    yield "|---|" + "---:|" * len(heads)
    tasks: dict[str, list[Row]] = {}
    for row in rows:
        tasks.setdefault(row["name"].partition("/")[0], []).append(row)
    for task, some in [*sorted(tasks.items(), key=lambda item: -len(item[1])), ("**all**", rows)]:
        counts = Counter(row["outcome"] for row in some)
        numbers = [counts[RIGHT], len(_lacking(some)), *(counts[outcome] for outcome in OUTCOMES[1:])]
        cells = " | ".join(str(number or "") for number in numbers)
        yield f"| {task} | {len(some)} | {cells} | {_share(counts)} |"


def _lacking(rows: Iterable[Row]) -> list[Row]:
    """Return those whose file is right, and has no cache."""
    return [row for row in rows if row["outcome"] == RIGHT and row.get("no_cache")]


def _without_cache(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the list of those whose file is right for whole texts, and why it has no cache."""
    found = sorted(_lacking(rows), key=lambda row: str(row["name"]))
    if not found:
        return
    yield "### Right, and without a cache"
    yield ""
    yield "| type | what the result says |"
    yield "|---|---|"
    yield from (f"| {row['name']} | {_escaped(row['no_cache'])} |" for row in found)
    yield ""


def _share(counts: Counter[str]) -> str:
    run = sum(counts.values()) - counts[NOT_BUILT] - counts[NOT_RUN]
    return f"{counts[RIGHT] / run:.1%}" if run else ""


def _list(outcome: str, rows: Iterable[Row], causes: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {outcome.capitalize()}"
    yield ""
    yield "| type | reason | plain export |"
    yield "|---|---|---|"
    for row in rows:
        yield f"| {row['name']} | {_reason(row, causes)} | {row['plain']} |"
    yield ""


def _reason(row: Row, causes: Mapping[str, Any]) -> str:
    """Return the cause that is known, or what was raised, for a cell of a table."""
    model_type = row["name"].partition("/")[2]
    known = causes.get(row["outcome"], {})
    text = known.get(row["name"]) or known.get(model_type) or _first(known, row["reason"]) or row["reason"]
    return _escaped(text if text != row["reason"] else _shown(text))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<").replace("{", "&#123;")


def _shown(reason: str) -> str:
    """Return the part of a message that tells: torch says what it did first, and what was wrong last."""
    begin, _, end = reason.rpartition(" ... ")
    if begin:
        return f"{begin.partition(':')[0]}: ... {end[-_SHOWN:]}"
    return reason if len(reason) <= _SHOWN else f"{reason[:_SHOWN]} ..."


def _first(known: Mapping[str, Any], reason: str) -> str:
    """Return the cause of the first pattern that a reason has."""
    patterns = known.get("patterns", [])
    return next((item["cause"] for item in patterns if re.search(item["reason"], reason)), "")
