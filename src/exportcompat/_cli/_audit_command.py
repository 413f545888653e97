"""The subcommand `audit`: what is known to go wrong on the versions that a project pins."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exportcompat._audit import Audit, Pins, audit, installed_pins, read_pins
from exportcompat._dataset import dataset, model_type_of
from exportcompat._errors import AlarmError
from exportcompat.registry import ExportCompatError, text_table

from ._options import Commands, to_json

_SHOWN = 120
"""Characters of a problem in the table; `--json` has all."""


def add_audit(commands: Commands) -> argparse.ArgumentParser:
    """Add the parser of `audit`."""
    text = "say what is known to break, or to be wrong, on pinned versions, and which patch mends it"
    parser: argparse.ArgumentParser = commands.add_parser("audit", help=text, description=text, allow_abbrev=False)
    parser.add_argument(
        "file", metavar="FILE", nargs="*", type=Path, help="requirements.txt, uv.lock, poetry.lock or pylock.toml"
    )
    parser.add_argument("--installed", action="store_true", help="what is installed here")
    parser.add_argument("--model", metavar="MODEL_DIR_OR_TYPE", default="", help="only what was seen of this model")
    parser.add_argument(
        "--with-patches", action="store_true", help="count what a patch mends as mended, though none is pinned"
    )
    parser.set_defaults(run=_audit)
    return parser


def _audit(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield what is known.

    Raises:
        AlarmError: at the end, if something goes wrong that nothing at hand mends.
        ExportCompatError: a file cannot be used, or there is none.
    """
    sources = [*map(read_pins, arguments.file), *([installed_pins()] if arguments.installed else [])]
    if not sources:
        raise ExportCompatError("say what to look at: FILE or --installed")
    found = [(pins, list(_audits(pins, arguments))) for pins in sources]
    if arguments.json:
        yield to_json({"audits": [_data(pins, item) for pins, items in found for item in items]})
    else:
        yield from (line for pins, items in found for item in items for line in _lines(pins, item))
    count = sum(len(item.unmended) for _, items in found for item in items)
    if count:
        raise AlarmError(f"{count} known {'breakage' if count == 1 else 'breakages'} that nothing pinned mends")


def _audits(pins: Pins, arguments: argparse.Namespace) -> Iterator[Audit]:
    model = model_type_of(arguments.model) if arguments.model else ""
    has_patches = pins.has_patches or arguments.with_patches
    environments = list(pins.environments())
    if not environments:
        # A project may have such files beside that which counts.
        yield Audit({}, (), ("it has neither torch nor transformers",))
    for versions in environments:
        yield audit(dataset(), versions, model=model, has_patches=has_patches)


def _data(pins: Pins, found: Audit) -> dict[str, Any]:
    return {"source": pins.source, "not_pinned": dict(pins.loose), **found.to_dict()}


def _lines(pins: Pins, found: Audit) -> Iterator[str]:
    yield f"{pins.source}: {', '.join(f'{name} {text}' for name, text in found.versions.items()) or 'nothing to judge'}"
    yield from (f"  {name}{text} is not pinned, so nothing is said of it" for name, text in pins.loose.items() if text)
    yield from (f"  {text}" for text in found.notes)
    if found.findings:
        yield ""
        rows = [
            (item.outcome, "mended" if item.is_mended else "", item.id, item.summary.partition("\n")[0][:_SHOWN])
            for item in found.findings
        ]
        yield from text_table([("OUTCOME", "", "ID", "WITHOUT PATCHES"), *rows])
        yield ""
    yield _summary(found)


def _summary(found: Audit) -> str:
    """Return how many there are, and what to do."""
    mended, rest = len(found.findings) - len(found.unmended), found.unmended
    if not found.findings:
        return "nothing is known to go wrong"
    if not rest:
        return f"{mended} known, all mended by exportcompat: export inside `apply_patches()`"
    could = [item for item in rest if item.patches]
    advice = f"; {len(could)} have a patch: pin exportcompat and export inside `apply_patches()`" if could else ""
    return f"{len(found.findings)} known, {len(rest)} not mended{advice}"
