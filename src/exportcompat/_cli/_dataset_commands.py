"""The subcommands `works` and `resolve`: on which versions a model exports, from data."""

import argparse
from collections.abc import Iterator, Mapping

from exportcompat._dataset import (
    UNKNOWN,
    Cell,
    Compatibility,
    Dataset,
    dataset,
    find_cells,
    model_type_of,
    requirement,
    working,
    works,
)
from exportcompat._errors import AlarmError
from exportcompat.registry import text_table

from ._options import Commands, to_json

_ROUTES = ("dynamo", "exportcompat.export", "torchscript", "torch.export")
_MODEL = "a folder with a config.json, or a model type such as jamba"
_NOTES = {
    "older code": "run with an older code of exportcompat",
    "same program": "not all of it run there: same program as another transformers",
}
"""What is to be said of evidence that is not `run`."""
_MEANING = {
    "native": "works without patches",
    "patched": "works with patches",
    "wrong": "exports, with wrong numbers",
    "fails": "does not export with patches",
    "absent": "transformers has no such model",
    "unsupported": "transformers itself cannot run it",
    "uninstallable": "these versions cannot be installed together",
    UNKNOWN: "nobody has run it",
}


def add_works(commands: Commands) -> argparse.ArgumentParser:
    """Add the parser of `works`."""
    text = "say from data whether a model exports on given versions"
    parser: argparse.ArgumentParser = commands.add_parser("works", help=text, description=text, allow_abbrev=False)
    _add_model(parser)
    for package in ("transformers", "torch"):
        parser.add_argument(f"--{package}", metavar="VERSION", help="4.54.1, or 4.54; default: what is installed")
    _add_choice(parser)
    parser.set_defaults(run=_works)
    return parser


def add_resolve(commands: Commands) -> argparse.ArgumentParser:
    """Add the parser of `resolve`."""
    text = "list the versions that a model was run on and works with, newest first, as requirements"
    parser: argparse.ArgumentParser = commands.add_parser("resolve", help=text, description=text, allow_abbrev=False)
    _add_model(parser)
    for package in ("transformers", "torch"):
        parser.add_argument(f"--{package}", metavar="BOUNDS", help="only such: 2.9, 2.9.1 or '>=2.9,<2.12'")
    parser.add_argument("--limit", type=int, metavar="N", help="no more than N lines")
    _add_choice(parser)
    parser.set_defaults(run=_resolve)
    return parser


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL_DIR_OR_TYPE", help="a folder with a config.json, or a type such as jamba"
    )


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", metavar="TASK", help="only results for it, such as text-generation")
    parser.add_argument("--attention", choices=("default", "eager"), help="only results with it")
    parser.add_argument("--route", choices=_ROUTES, default=_ROUTES[0], help="the way to export (dynamo)")


def _works(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield what is known.

    Raises:
        AlarmError: at the end, if it was not run or is not right there.
        ExportCompatError: see `works`.
    """
    found = works(
        model_type_of(arguments.model),
        **{name: getattr(arguments, name) for name in ("transformers", "torch", "task", "attention", "route")},
    )
    if arguments.json:
        yield to_json(found.to_dict())
    else:
        yield from _lines(found)
    if not found.does_work:
        raise AlarmError(f"{_place(found)}: {_MEANING[found.outcome]}")


def _place(found: Compatibility) -> str:
    return f"{found.model_type}, transformers {found.transformers}, torch {found.torch}"


def _lines(found: Compatibility) -> Iterator[str]:
    note = f" ({_NOTES[found.evidence]})" if found.evidence in _NOTES else ""
    yield f"{_place(found)}: {found.outcome}, {_MEANING[found.outcome]}{note}"
    if found.results:
        yield ""
        rows = [(item["case"], item["outcome"], _difference(item), _run(item)) for item in found.results]
        yield from text_table([("CASE", "OUTCOME", "DIFFERENCE", "RUN"), *rows])
    for item in found.nearest:
        yield f"  near it: transformers {item.transformers}, torch {item.torch}: {item.outcome}"
    counts = [f"{list(found.patches.values()).count(name)} {name}" for name in sorted({*found.patches.values()})]
    if counts:
        whose = "called there" if found.results else "of the nearest"
        yield f"patches {whose}, as they stand on these versions: {', '.join(counts)}"


def _run(item: Mapping[str, object]) -> str:
    """Return when a result was run, or whose it is."""
    return f"same program as {item['carried']}" if "carried" in item else str(item["date"])


def _difference(item: object) -> str:
    value = item.get("difference") if isinstance(item, dict) else None
    return f"{value:.1e}" if isinstance(value, float) else str(value or "")


def _resolve(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield pairs of versions.

    Raises:
        AlarmError: there is none.
        ExportCompatError: see `find_cells`.
    """
    source = dataset()
    chosen = {name: getattr(arguments, name) for name in ("task", "attention", "route")}
    cells = find_cells(source, model_type_of(arguments.model), **chosen)
    found = working(cells, arguments.torch, arguments.transformers)[: arguments.limit]
    if arguments.json:
        yield to_json({"versions": [_pair(cell, source) for cell in found]})
    else:
        yield from (requirement(cell, source) for cell in found)
    if not found:
        raise AlarmError(
            f"{arguments.model} was run on {len(cells)} pairs of versions, and works on none that is asked for"
        )


def _pair(cell: Cell, source: Dataset) -> dict[str, object]:
    return {
        **cell.versions,
        "outcome": cell.outcome,
        "evidence": cell.evidence,
        "cases": [item["case"] for item in cell.results],
        "requirement": requirement(cell, source),
    }
