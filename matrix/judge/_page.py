"""The page of the judge: who is right where, with versions and commands."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.version import Version

from exportcompat.matrix._files import write_text

from ._driver import Row, read_results
from ._makers import MAKERS, Maker
from ._models import MODELS, TASK
from ._result import MADE, NOT_OFFERED
from ._verdicts import STOPS, UNREADABLE, WRONG, Options, is_kept, is_within, widest

_INTRODUCTION = f"""# The judge: whose file is right?

`exportcompat verify` works on files of any exporter. Here each one makes a file of the same tiny decoder, as its
documentation says, and each file is compared with eager by the same calls: a first call, decoding, 32 tokens fed back,
chunks on a filled cache, batches of 1 and 3, left padding, lengths on both sides of every limit that the configuration
has. Every logit has to be within 1e-3 of eager, and the next tokens the same. Ours are judged like the others.

```sh
exportcompat verify OUT/model.onnx --model MODEL_DIR --task {TASK}
exportcompat verify OUT/model.onnx --model MODEL_DIR --task {TASK} --no-padding --batch 1
```

A file may promise less than every call, and is asked for no more then:

| option | what is left out |
|---|---|
| `--no-padding` | calls with padding on the left of some texts |
| `--batch N` | calls with more than N texts |
| `--no-chunks` | calls of several new tokens after a past: after the first call there is one token at a time |

In the tables:

| word | what it says |
|---|---|
| all | right in every call |
| no padding, no chunks | right in those calls; others are wrong or refused by ONNX Runtime; `/` stands between sets |
| wrong by 3.2 | right in no set of calls; the difference of a logit for one text, no padding, token by token |
| stops | as above, and ONNX Runtime refuses calls of that set |
| fails | no file |
| unreadable | a file that ONNX Runtime does not load, or that cannot be compared |
| not offered | the exporter says that it does not have the type |
| - | not run |

What is **bold** is less than the exporter promises. `(said so)`: a warning of the exporter says that it is not right.
"""
_COMMANDS = """## Run it

```sh
nox -s judge                                        # what has no current result, in both environments
nox -s "judge(transformers='5.24.0')" -- --maker mobius --model "llama*"
python -m exportcompat.matrix judge --page docs/judge.md
```

The models have random weights, two layers, and a vocabulary and a limit of tokens of a few hundred at most: what is
large in a real model, and what depends on weights, is not judged here. Everything runs on a CPU in float32. The results
are lines of `matrix/judge/results.jsonl`, with every set of calls that was tried.
"""
_CALLS = (("--no-padding", "no padding"), ("--batch", "one text"), ("--no-chunks", "no chunks"))


def write_page(results: Path, page: Path) -> int:
    """Write the page of a file of results; return 0."""
    rows = read_results(results)
    write_text(page, page_of(list(rows.values())))
    return 0


def page_of(rows: list[Row]) -> str:
    """Return the page as Markdown."""
    releases = sorted({row["versions"]["transformers"] for row in rows}, key=Version, reverse=True)
    parts = [_INTRODUCTION]
    for release in releases:
        parts += _table(release, [row for row in rows if row["versions"]["transformers"] == release])
    parts += ["## Who makes them", "", *(line for maker in MAKERS.values() for line in _section(maker, rows))]
    return "\n".join([*parts, _COMMANDS]).rstrip() + "\n"


def _table(release: str, rows: list[Row]) -> Iterator[str]:
    """Yield a table: a line for each model, a column for each maker that was run with a release of transformers."""
    found = {(row["maker"], row["model"]): row for row in rows}
    makers = [maker for maker in MAKERS.values() if any(name == maker.name for name, _ in found)]
    yield f"## With transformers {release}"
    yield ""
    yield f"| model | {' | '.join(maker.name for maker in makers)} |"
    yield f"|---|{'---|' * len(makers)}"
    for model in MODELS.values():
        cells = [_cell(maker, found.get((maker.name, model.name))) for maker in makers]
        if any(cell != "-" for cell in cells):
            title = f"{model.name} ({model.title})" if model.title else model.name
            yield f"| {title} | {' | '.join(cells)} |"
    kept = [_kept(maker, [row for row in rows if row["maker"] == maker.name]) for maker in makers]
    yield f"| *kept its promise* | {' | '.join(kept)} |"
    yield ""


def _kept(maker: Maker, rows: list[Row]) -> str:
    offered = [row for row in rows if row["outcome"] != NOT_OFFERED]
    return f"{sum(keeps(maker, row) for row in offered)} of {len(offered)}"


def keeps(maker: Maker, row: Row) -> bool:
    """Say whether a file is right for everything that its maker promises."""
    return row["outcome"] == MADE and all(is_kept(promise, row["verdicts"]) for promise in maker.promises)


def _cell(maker: Maker, row: Row | None) -> str:
    if row is None:
        return "-"
    if row["outcome"] == NOT_OFFERED:
        return "not offered"
    word = word_of(row)
    said = " (said so)" if maker.admits and any(maker.admits in item for item in row["warnings"]) else ""
    return word if keeps(maker, row) else f"**{word}**{said}"


def word_of(row: Row) -> str:
    """Return what a file is right for, in words, or what is wrong with it in the narrowest set of calls."""
    if row["outcome"] != MADE:
        return str(row["outcome"])
    right = list(widest(row["verdicts"]))
    if right:
        return " / ".join(map(in_words, right))
    last = row["verdicts"][-1]
    if last["verdict"] == WRONG and last["difference"] is not None:
        return f"wrong by {last['difference']:.2g}"
    return str(last["verdict"])


def in_words(options: Options) -> str:
    """Return the calls of a contract in words."""
    return ", ".join(word for name, word in _CALLS if name in options) or "all"


def _section(maker: Maker, rows: list[Row]) -> Iterator[str]:
    """Yield what a maker is, how it is called, what it promises, what it says, and what is wrong."""
    mine = [row for row in rows if row["maker"] == maker.name]
    yield f"### {maker.name}"
    yield ""
    yield f"{maker.title}.".replace("..", ".")
    yield ""
    yield f"```sh\n{maker.shown}\n```"
    yield ""
    yield f"Judged by {' and by '.join(map(_promise, maker.promises))}. {maker.why}"
    yield ""
    if not mine:
        yield "Not run yet."
        yield ""
        return
    yield from (f"Run with {line}." for line in _versions(mine))
    yield ""
    yield from _list("It says:", _warnings(mine))
    yield from _list("Not as promised:", [_problem(maker, row) for row in mine if _is_broken(maker, row)])


def _promise(options: Options) -> str:
    return f"`{' '.join(options)}`" if options else "every call"


def _versions(rows: Iterable[Row]) -> list[str]:
    return sorted({", ".join(f"{name} {version}" for name, version in row["versions"].items()) for row in rows})


def _list(title: str, items: Iterable[str]) -> Iterator[str]:
    lines = list(items)
    if lines:
        yield title
        yield ""
        yield from (f"- {line}" for line in lines)
        yield ""


def _warnings(rows: Iterable[Row]) -> Iterator[str]:
    """Yield each warning once, with the models at which it was said."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for warning in row["warnings"]:
            found.setdefault(_code(warning), []).append(_at(row))
    for warning, models in found.items():
        yield f"{warning} ({', '.join(models) if len(models) < 5 else f'{len(models)} files'})"


def _at(row: Row) -> str:
    return f"{row['model']}, {row['versions']['transformers']}"


def _is_broken(maker: Maker, row: Row) -> bool:
    return row["outcome"] != NOT_OFFERED and not keeps(maker, row)


def _problem(maker: Maker, row: Row) -> str:
    """Return what is wrong with a file, within what its maker promises, in one line."""
    if row["outcome"] != MADE:
        return f"{_at(row)}: no file, {_code(row['error'])}"
    asked = [item for item in row["verdicts"] if _is_asked(maker, item)] or row["verdicts"]
    first = next(item for item in asked if item["verdict"] in (WRONG, STOPS, UNREADABLE))
    if first["verdict"] == UNREADABLE:
        return f"{_at(row)}: {_code(first['error'])}"
    parts = [f"{first['wrong']} of {first['calls']} calls wrong"] if first["wrong"] else []
    parts += [f"{first['refused']} refused, {_code(first['error'])}"] if first["refused"] else []
    off = "" if first["difference"] is None or not first["wrong"] else f", by up to {first['difference']:.2g}"
    return f"{_at(row)}: {'; '.join(parts)}{off}"


def _is_asked(maker: Maker, item: Mapping[str, Any]) -> bool:
    """Say whether a verdict is on calls that a maker promises, and on no others, and is bad."""
    within = any(is_within(tuple(item["options"]), promise) for promise in maker.promises)
    return within and item["verdict"] in (WRONG, STOPS, UNREADABLE)


def _code(text: str) -> str:
    """Return a text of others as code, which a table and a list can hold."""
    return f"`{' '.join(text.split()).replace('`', chr(39)).replace('|', '/')}`"
