"""How results are written down: texts that many rows have in common once for a file, and each case on a line."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

SCHEMA = 3
READ = (2, SCHEMA)
"""Schemas that are read. In the second, every row has its texts itself."""

_TABLED = ("applied", "used", "modules", "caches")
"""Fields that hold lists of texts; in a file they are numbers of `strings`, and so is the problem without patches."""
_HEAD = ("schema", "transformers", "torch")


def packed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file holds, as `results.schema.json` describes it.

    A text keeps its number, so that a new row changes one line and adds to the table.

    Args:
        content: what `unpacked` returns; with `strings`, the texts of the table that the file had.
    """
    rows, used = content["cases"], {row["environment"] for row in content["cases"].values()}
    table = _Table(content.get("strings", ()))
    environments = {name: item for name, item in sorted(content["environments"].items()) if name in used}
    found = {
        "environments": {
            name: {**item, "packages": table.numbers(item["packages"])} for name, item in environments.items()
        },
        "cases": {name: _numbered(row, table) for name, row in sorted(rows.items())},
    }
    return {**{name: content[name] for name in _HEAD}, "strings": list(table), **found}


def unpacked(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file holds with its texts in each row; the table stays beside them.

    Raises:
        IndexError: a row has a number that is not in the table.
    """
    texts = content.get("strings", [])
    return {
        **content,
        "schema": SCHEMA,
        "environments": {
            name: {**item, "packages": [_text(text, texts) for text in item["packages"]]}
            for name, item in content["environments"].items()
        },
        "cases": {name: _spelled(row, texts) for name, row in content["cases"].items()},
    }


def text_of(content: Mapping[str, Any]) -> str:
    """Return the JSON of a packed file: a line for each text, each environment and each case."""
    blocks = [f"{json.dumps(name)}: {json.dumps(content[name])}" for name in _HEAD]
    blocks += [f"{json.dumps(name)}: {_lines(content[name])}" for name in ("environments", "strings", "cases")]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _lines(items: Mapping[str, Any] | Iterable[Any]) -> str:
    if isinstance(items, Mapping):
        lines = [f" {json.dumps(name)}: {_short(value)}" for name, value in items.items()]
        return "{\n" + ",\n".join(lines) + "\n}" if lines else "{}"
    lines = [f" {json.dumps(value)}" for value in items]
    return "[\n" + ",\n".join(lines) + "\n]" if lines else "[]"


def _short(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


class _Table:
    """Gives each text a number: the one that it had, or the next."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._numbers = {text: number for number, text in enumerate(texts)}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def numbers(self, texts: Iterable[str]) -> list[int]:
        return [self.number(text) for text in texts]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)


def _numbered(row: Mapping[str, Any], table: _Table) -> dict[str, Any]:
    lists = {name: table.numbers(row[name]) for name in _TABLED if name in row}
    plain = {"plain": {**row["plain"], "problem": table.number(row["plain"]["problem"])}} if "plain" in row else {}
    return dict(sorted({**row, **lists, **plain}.items()))


def _spelled(row: Mapping[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    lists = {name: [_text(item, texts) for item in row[name]] for name in _TABLED if name in row}
    plain = {"plain": {**row["plain"], "problem": _text(row["plain"]["problem"], texts)}} if "plain" in row else {}
    return {**row, **lists, **plain}


def _text(item: int | str, texts: Sequence[str]) -> str:
    """Return the text of a number; in files of the second schema each text stands for itself."""
    return texts[item] if isinstance(item, int) else item
